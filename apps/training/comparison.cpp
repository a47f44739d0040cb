#include "apps/training/comparison.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "apps/common/fields.h"
#include "apps/common/print.h"
#include "apps/common/text.h"
#include "engine/error.h"

namespace pursuit::apps {

using nlohmann::ordered_json;

namespace {

constexpr const char* train_loss_column = "train loss";
constexpr const char* time_column = "train time";

std::string speed_column(const std::string& unit) { return unit + "/s"; }

// What the runs of one group share.
ordered_json without_seed(ordered_json options) {
  for (const char* key :
       {"seed", "threads", "workers", "cache", "cache-mib", "checkpoint-seconds", "checkpoint-steps"})
    options.erase(key);
  return options;
}

// Numbers of unlike evaluations stand side by side in the table, so that is said.
void note_unlike(Comparison& comparison, const std::vector<ComparedRun>& runs) {
  std::set<std::string> data, weights;
  std::set<int64_t> counts;
  for (const ComparedRun& run : runs) {
    if (run.count == 0) continue;
    data.insert(run.data);
    weights.insert(run.ema ? "averaged" : "last");
    counts.insert(run.count);
  }
  const auto note = [&](const char* what, const auto& values) {
    if (values.size() > 1)
      comparison.notes.push_back(fmt::format("the runs were evaluated on different {}: {}", what,
                                             fmt::join(values.begin(), values.end(), ", ")));
  };
  note("data", data);
  note("weights", weights);
  note("numbers of samples", counts);
}

std::string cell(const Column& column, const Measure& m) {
  if (column.duration) return format_duration(m.mean());
  const std::string mean = fmt::format("{:.{}f}", m.mean(), column.decimals);
  return m.values.size() < 2 ? mean : fmt::format("{} ± {:.{}f}", mean, m.spread(), column.decimals);
}

std::string group_name(const RunGroup& g) {
  return g.names.size() == 1 ? g.names[0] : fmt::format("{} and {} more", g.names[0], g.names.size() - 1);
}

}  // namespace

std::vector<Column> training_columns(const std::string& unit) {
  return {{.name = train_loss_column, .decimals = 3, .best = Best::none},
          {.name = speed_column(unit), .decimals = 0},
          {.name = time_column, .best = Best::none, .duration = true}};
}

void ComparedRun::add_training(const RunFolder& run, const std::string& unit) {
  add(train_loss_column, run.last("train_loss"));
  add(speed_column(unit), run.per_second(unit));
  add(time_column, run.training_seconds());
}

void fail_no_run(const RunFolder& run) {
  std::string why;
  for (const std::string& p : run.problems)
    if (p.find("config") != std::string::npos) why += " " + p;
  fail("compare", run.folder + " is not the folder of a run." + why);
}

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

Comparison compare_runs(const std::vector<ComparedRun>& runs, const std::vector<Column>& columns) {
  if (runs.empty()) fail("compare", "there is nothing to compare; give the folders of runs");
  Comparison comparison;
  std::vector<ordered_json> kinds;
  for (const ComparedRun& run : runs) {
    const ordered_json options = without_seed(run.options);
    const size_t at = size_t(std::find(kinds.begin(), kinds.end(), options) - kinds.begin());
    if (at == kinds.size()) {
      kinds.push_back(options);
      comparison.groups.push_back({{}, run, {}});
    }
    comparison.groups[at].names.push_back(run.name);
    for (const auto& [column, value] : run.measures)
      if (std::isfinite(value)) comparison.groups[at].measures[column].values.push_back(value);
  }
  for (const Column& column : columns)
    if (std::any_of(comparison.groups.begin(), comparison.groups.end(),
                    [&](const RunGroup& g) { return g.measures.contains(column.name); }))
      comparison.columns.push_back(column);
  for (const auto& option : kinds[0].items())
    if (std::any_of(kinds.begin(), kinds.end(),
                    [&](const auto& kind) { return kind.at(option.key()) != option.value(); }))
      comparison.differences.push_back(option.key());
  note_unlike(comparison, runs);
  return comparison;
}

Table to_table(const Comparison& comparison) {
  const bool mark = comparison.groups.size() > 1;
  Table table{{"run", "n", "attention", "params"}, {}, {Best::none, Best::none, Best::none, Best::none}};
  for (const Column& column : comparison.columns) {
    table.columns.push_back(column.name);
    table.best.push_back(mark ? column.best : Best::none);
  }
  for (const RunGroup& g : comparison.groups) {
    table.rows.push_back({group_name(g), std::to_string(g.names.size()), g.first.attention,
                          g.first.parameters ? format_count(double(*g.first.parameters)) : "-"});
    for (const Column& column : comparison.columns) {
      const auto m = g.measures.find(column.name);
      table.rows.back().push_back(m == g.measures.end() ? "-" : cell(column, m->second));
    }
  }
  return table;
}

Table differences_table(const Comparison& comparison) {
  Table table{{"option"}, {}};
  for (const RunGroup& g : comparison.groups) table.columns.push_back(group_name(g));
  for (const std::string& key : comparison.differences) {
    table.rows.push_back({key});
    for (const RunGroup& g : comparison.groups)
      table.rows.back().push_back(option_text(g.first.options.at(key)));
  }
  return table;
}

ordered_json to_json(const Comparison& comparison) {
  ordered_json rows = ordered_json::array();
  for (const RunGroup& g : comparison.groups) {
    ordered_json row = {{"runs", g.names}, {"attention", g.first.options.at("attention")}};
    row["parameters"] = g.first.parameters ? ordered_json(*g.first.parameters) : ordered_json();
    row["options"] = ordered_json::object();
    for (const std::string& key : comparison.differences) row["options"][key] = g.first.options.at(key);
    row["measures"] = ordered_json::object();
    for (const Column& column : comparison.columns) {
      const auto found = g.measures.find(column.name);
      if (found == g.measures.end()) continue;
      const Measure& m = found->second;
      row["measures"][column.name] = {{"mean", m.mean()}, {"std", m.spread()}, {"values", m.values}};
      if (column.duration) row["measures"][column.name]["unit"] = "s";
    }
    rows.push_back(std::move(row));
  }
  return {{"rows", rows}, {"notes", comparison.notes}};
}

void print(const Comparison& comparison, bool markdown, bool json) {
  if (json) {
    print("{}\n", Lines{to_json(comparison).dump(2, ' ', false, ordered_json::error_handler_t::replace)});
    return;
  }
  const auto show = [&](const Table& table) {
    print("{}\n", Lines{markdown ? to_markdown(table) : to_text(table)});
  };
  show(to_table(comparison));
  if (!comparison.differences.empty()) show(differences_table(comparison));
  for (const std::string& text : comparison.notes) note("note: {}\n", text);
}

}  // namespace pursuit::apps
