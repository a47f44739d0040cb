#include "apps/classify/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "apps/classify/commands.h"
#include "apps/classify/run_record.h"
#include "apps/common/metrics.h"
#include "apps/common/text.h"
#include "engine/error.h"

namespace pursuit::classify {

using nlohmann::ordered_json;

double Measure::mean() const {
  double sum = 0;
  for (const double v : values) sum += v;
  return sum / double(values.size());
}

double Measure::spread() const {
  if (values.size() < 2) return 0;
  const double m = mean();
  double squares = 0;
  for (const double v : values) squares += (v - m) * (v - m);
  return std::sqrt(squares / double(values.size() - 1));
}

namespace {

constexpr const char* clean_column = "top-1";
constexpr const char* corrupted_column = "corrupted";
constexpr const char* mce_column = "mCE";
constexpr const char* train_loss_column = "train loss";
constexpr const char* test_loss_column = "test loss";
constexpr const char* speed_column = "images/s";
constexpr const char* time_column = "train time";

RunRecord read_run(const std::string& folder) {
  RunRecord run = read_record(folder);
  if (run.config) return run;
  std::string why;
  for (const std::string& p : run.problems)
    if (p.find("config") != std::string::npos) why += " " + p;
  fail("compare", folder + " is not the folder of a run." + why);
}

// What the runs of one group share.
ordered_json without_seed(const Config& config) {
  ordered_json json = to_json(config);
  for (const char* key :
       {"seed", "threads", "workers", "cache-mib", "checkpoint-seconds", "checkpoint-steps"})
    json.erase(key);
  return json;
}

std::string attack_column(const Results::Attacked& a) {
  const std::string budget = budget_text(a.attack, a.budget);
  return a.attack + (budget == "-" ? "" : " " + budget) + (a.space == "pixel" ? " (pixel)" : "");
}

// One column for every attack and space that a run has, at the largest budget of all runs.
std::vector<std::string> attack_columns(const std::vector<RunRecord>& runs) {
  std::vector<Results::Attacked> largest;
  for (const RunRecord& run : runs) {
    if (!run.results) continue;
    for (const Results::Attacked& a : run.results->attacked) {
      const auto same = std::find_if(largest.begin(), largest.end(), [&](const Results::Attacked& l) {
        return l.attack == a.attack && l.space == a.space;
      });
      if (same == largest.end())
        largest.push_back(a);
      else if (a.budget > same->budget)
        *same = a;
    }
  }
  std::vector<std::string> columns;
  for (const Results::Attacked& a : largest) columns.push_back(attack_column(a));
  return columns;
}

void add(RunGroup& group, const std::string& column, std::optional<double> value, double scale = 1) {
  if (value && std::isfinite(*value)) group.measures[column].values.push_back(*value * scale);
}

void add_measures(RunGroup& group, const RunRecord& run) {
  const bool evaluated = run.results && run.results->count > 0;
  add(group, clean_column, evaluated ? std::optional(run.results->top1) : run.last("test_accuracy"), 100);
  add(group, test_loss_column, evaluated ? std::optional(run.results->loss) : run.last("test_loss"));
  add(group, train_loss_column, run.last("train_loss"));
  add(group, speed_column, run.images_per_second());
  add(group, time_column, run.training_seconds());
  if (!run.results) return;
  add(group, corrupted_column, mean_corrupted_top1(run.results->corrupted), 100);
  add(group, mce_column, mean_corruption_error(run.results->corrupted), 100);
  for (const Results::Attacked& a : run.results->attacked) add(group, attack_column(a), a.top1, 100);
}

// Numbers of unlike evaluations stand side by side in the table, so that is said.
void note_unlike(Comparison& comparison, const std::vector<RunRecord>& runs) {
  std::set<std::string> data, weights;
  std::set<int64_t> counts;
  for (const RunRecord& run : runs) {
    if (!run.results || run.results->count == 0) continue;
    data.insert(run.results->data);
    weights.insert(run.results->ema ? "averaged" : "last");
    counts.insert(run.results->count);
  }
  const auto note = [&](const char* what, const auto& values) {
    if (values.size() > 1)
      comparison.notes.push_back(fmt::format("the runs were evaluated on different {}: {}", what,
                                             fmt::join(values.begin(), values.end(), ", ")));
  };
  note("data", data);
  note("weights", weights);
  note("numbers of pictures", counts);
}

std::string text_of(const ordered_json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string cell(const std::string& column, const Measure& m) {
  if (column == time_column) return apps::format_duration(m.mean());
  const int decimals = column == test_loss_column || column == train_loss_column ? 3
                       : column == speed_column                                  ? 0
                                                                                 : 2;
  const std::string mean = fmt::format("{:.{}f}", m.mean(), decimals);
  return m.values.size() < 2 ? mean : fmt::format("{} ± {:.{}f}", mean, m.spread(), decimals);
}

apps::Best best_of(const std::string& column) {
  if (column == time_column || column == train_loss_column) return apps::Best::none;
  return column == mce_column || column == test_loss_column ? apps::Best::lowest : apps::Best::highest;
}

std::string group_name(const RunGroup& g) {
  return g.names.size() == 1 ? g.names[0] : fmt::format("{} and {} more", g.names[0], g.names.size() - 1);
}

apps::Table differences_table(const Comparison& comparison) {
  apps::Table table{{"option"}, {}};
  for (const RunGroup& g : comparison.groups) table.columns.push_back(group_name(g));
  for (const std::string& key : comparison.differences) {
    table.rows.push_back({key});
    for (const RunGroup& g : comparison.groups)
      table.rows.back().push_back(text_of(to_json(g.config).at(key)));
  }
  return table;
}

}  // namespace

Comparison compare_runs(const std::vector<std::string>& folders) {
  if (folders.empty()) fail("compare", "there is nothing to compare; give the folders of runs");
  std::vector<RunRecord> runs;
  for (const std::string& folder : folders) runs.push_back(read_run(folder));

  Comparison comparison;
  std::vector<ordered_json> configs;
  for (const RunRecord& run : runs) {
    const ordered_json config = without_seed(*run.config);
    const size_t at = size_t(std::find(configs.begin(), configs.end(), config) - configs.begin());
    if (at == configs.size()) {
      configs.push_back(config);
      comparison.groups.push_back({{}, *run.config, parameter_count(*run.config), {}});
    }
    comparison.groups[at].names.push_back(run.name);
    add_measures(comparison.groups[at], run);
  }

  std::vector<std::string> columns{clean_column, corrupted_column, mce_column};
  for (const std::string& attack : attack_columns(runs)) columns.push_back(attack);
  columns.insert(columns.end(), {test_loss_column, train_loss_column, speed_column, time_column});
  for (const std::string& column : columns)
    if (std::any_of(comparison.groups.begin(), comparison.groups.end(),
                    [&](const RunGroup& g) { return g.measures.contains(column); }))
      comparison.columns.push_back(column);
  // These follow from the data and may be long.
  for (const char* key : {"classes", "mean", "std"})
    for (ordered_json& config : configs) config.erase(key);
  for (const auto& [key, value] : configs[0].items())
    if (std::any_of(configs.begin(), configs.end(), [&](const auto& c) { return c.at(key) != value; }))
      comparison.differences.push_back(key);
  note_unlike(comparison, runs);
  return comparison;
}

apps::Table to_table(const Comparison& comparison) {
  using apps::Best;
  const bool mark = comparison.groups.size() > 1;
  apps::Table table{
      {"run", "n", "attention", "params"}, {}, {Best::none, Best::none, Best::none, Best::none}};
  for (const std::string& column : comparison.columns) {
    table.columns.push_back(column);
    table.best.push_back(mark ? best_of(column) : Best::none);
  }
  for (const RunGroup& g : comparison.groups) {
    table.rows.push_back({group_name(g), std::to_string(g.names.size()), describe_attention(g.config),
                          g.parameters ? apps::format_count(double(*g.parameters)) : "-"});
    for (const std::string& column : comparison.columns) {
      const auto m = g.measures.find(column);
      table.rows.back().push_back(m == g.measures.end() ? "-" : cell(column, m->second));
    }
  }
  return table;
}

ordered_json to_json(const Comparison& comparison) {
  ordered_json rows = ordered_json::array();
  for (const RunGroup& g : comparison.groups) {
    ordered_json row = {{"runs", g.names}, {"attention", g.config.attention}};
    row["parameters"] = g.parameters ? ordered_json(*g.parameters) : ordered_json();
    const ordered_json config = to_json(g.config);
    row["options"] = ordered_json::object();
    for (const std::string& key : comparison.differences) row["options"][key] = config.at(key);
    row["measures"] = ordered_json::object();
    for (const std::string& column : comparison.columns) {
      const auto found = g.measures.find(column);
      if (found == g.measures.end()) continue;
      const Measure& m = found->second;
      row["measures"][column] = {{"mean", m.mean()}, {"std", m.spread()}, {"values", m.values}};
      if (column == time_column) row["measures"][column]["unit"] = "s";
    }
    rows.push_back(std::move(row));
  }
  return {{"rows", rows}, {"notes", comparison.notes}};
}

int compare(const std::vector<std::string>& folders, bool markdown, bool json) {
  const Comparison comparison = compare_runs(folders);
  if (json) {
    fmt::print("{}\n", to_json(comparison).dump(2, ' ', false, ordered_json::error_handler_t::replace));
    return 0;
  }
  const auto print = [&](const apps::Table& table) {
    fmt::print("{}\n", markdown ? apps::to_markdown(table) : apps::to_text(table));
  };
  print(to_table(comparison));
  if (!comparison.differences.empty()) print(differences_table(comparison));
  for (const std::string& note : comparison.notes) fmt::print(stderr, "note: {}\n", note);
  return 0;
}

}  // namespace pursuit::classify
