#include "apps/study/comparison.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "apps/run/fields.h"
#include "apps/study/inspection.h"
#include "apps/terminal/print.h"
#include "apps/terminal/text.h"
#include "engine/base/error.h"

namespace pursuit::apps {

using nlohmann::ordered_json;

namespace {

constexpr const char* train_loss_column = "train loss";
constexpr const char* time_column = "train time";

std::string speed_column(const std::string& unit) { return unit + "/s"; }

// The options that the runs of a group have in common.
ordered_json without_seed(ordered_json options) {
  for (const char* key : {"seed", "threads", "workers", "cache", "cache-mib", "checkpoint-seconds",
                          "checkpoint-steps", "inspect-every"})
    options.erase(key);
  return options;
}

// Notes differences between runs whose numbers share a column.
void note_unlike(Comparison& comparison, const std::vector<ComparedRun>& runs) {
  const auto note = [&](const char* what, std::string ComparedRun::*member) {
    std::set<std::string> values;
    for (const ComparedRun& run : runs)
      if (!(run.*member).empty()) values.insert(run.*member);
    if (values.size() > 1)
      comparison.notes.push_back(
          fmt::format("the runs {}: {}", what, fmt::join(values.begin(), values.end(), ", ")));
  };
  note("are evaluated on different weights", &ComparedRun::weights);
  note("were measured by different programs", &ComparedRun::programs);
}

// Sets the columns' headings and the shared conditions.
void set_headings(Comparison& comparison) {
  std::map<std::string, std::set<std::string>> seen;
  for (const Column& column : comparison.columns)
    for (const auto& [key, value] : column.with) seen[key].insert(value);
  for (Column& column : comparison.columns) {
    std::string in_parentheses;
    for (size_t i = 0; i < column.with.size(); ++i) {
      const auto& [key, value] = column.with[i];
      if (i == 0 || seen[key].size() > 1) in_parentheses += (i ? ", " : "") + value;
      const std::pair entry{key, value};
      if (i > 0 && seen[key].size() == 1 &&
          std::find(comparison.shared.begin(), comparison.shared.end(), entry) == comparison.shared.end())
        comparison.shared.push_back(entry);
    }
    column.heading = column.name + (in_parentheses.empty() ? "" : " (" + in_parentheses + ")");
  }
}

bool same(const Column& a, const Column& b) { return a.name == b.name && a.with == b.with; }

// With so many decimals; large numbers with three digits.
std::string shown(double value, int decimals) {
  return std::abs(value) >= 1e6 ? fmt::format("{:.3g}", value) : fmt::format("{:.{}f}", value, decimals);
}

// `runs`: number of runs in the group.
std::string cell(const Column& column, const Measure& m, size_t runs) {
  if (column.duration) return format_duration(m.mean());
  const std::string mean = shown(m.mean(), column.decimals);
  const std::string some =
      m.values.size() < runs ? fmt::format(" ({} of {})", m.values.size(), runs) : std::string();
  return m.values.size() < 2 ? mean + some : mean + " ± " + shown(m.spread(), column.decimals) + some;
}

}  // namespace

std::vector<Column> training_columns(const std::string& unit) {
  return {{.name = train_loss_column, .decimals = 3, .best = Best::none, .place = 2},
          {.name = speed_column(unit), .decimals = 0, .place = 2},
          {.name = time_column, .best = Best::none, .duration = true, .place = 2}};
}

MeasuredWith measured_with(const Conditions& c, const std::string& unit, const std::string& own) {
  const auto known = [](const std::string& text) { return text.empty() ? "not recorded" : text; };
  return {{unit, std::to_string(c.count)},
          {"data", c.data},
          {fmt::format("{} {} of {}", c.count, unit, c.data), known(c.fingerprint)},
          {"weights", c.weights == own ? "as the run is evaluated" : c.weights + " weights"},
          {"dtype", known(c.dtype)}};
}

void ComparedRun::add(const Column& column, std::optional<double> value, double scale, bool asks) {
  if (!value || !std::isfinite(*value)) return;
  const auto old =
      std::find_if(values.begin(), values.end(), [&](const Value& v) { return same(v.column, column); });
  if (old == values.end())
    values.push_back({column, *value * scale, asks});
  else
    *old = {column, *value * scale, asks || old->asks};
}

void ComparedRun::measured(const Conditions& conditions, const std::string& own) {
  weights = own == "ema" ? "averaged" : "raw";
  if (conditions.made_by.is_object()) programs = program(conditions);
}

void ComparedRun::add_training(const RunFolder& run, const std::string& unit) {
  const std::vector<Column> columns = training_columns(unit);
  add(columns[0], run.last("train_loss"));
  add(columns[1], run.per_second(unit));
  add(columns[2], run.training_seconds());
  for (const Curve& curve : inspection_curves()) {
    const auto own =
        std::count_if(curve.lines.begin(), curve.lines.end(), [](const auto& line) { return !line.dashed; });
    for (const auto& line : curve.lines) {
      if (line.dashed) continue;  // for reference
      const bool named = own > 1;
      add({.name = named ? curve.title + ", " + line.name : curve.title,
           .decimals = 3,
           .best = Best::none,
           .place = 1},
          run.last(line.key));
    }
  }
}

std::string name_of(const RunGroup& g) {
  if (!g.first.group.empty()) return g.first.group;
  return g.names.size() == 1 ? g.names[0] : fmt::format("{} and {} more", g.names[0], g.names.size() - 1);
}

Comparison compare_runs(const std::vector<ComparedRun>& runs) {
  if (runs.empty()) fail("compare", "there is nothing to compare; give the folders of runs");
  Comparison comparison;
  std::vector<Column>& columns = comparison.columns;
  const auto column_of = [&](const Column& wanted) {
    return std::find_if(columns.begin(), columns.end(), [&](const Column& c) { return same(c, wanted); });
  };
  for (const ComparedRun& run : runs)
    for (const ComparedRun::Value& v : run.values)
      if (v.asks && column_of(v.column) == columns.end()) columns.push_back(v.column);
  std::stable_sort(columns.begin(), columns.end(),
                   [](const Column& a, const Column& b) { return a.place < b.place; });
  set_headings(comparison);

  std::vector<ordered_json> kinds;
  for (const ComparedRun& run : runs) {
    const ordered_json kind = run.group.empty() ? without_seed(run.options) : ordered_json(run.group);
    const size_t at = size_t(std::find(kinds.begin(), kinds.end(), kind) - kinds.begin());
    if (at == kinds.size()) {
      kinds.push_back(kind);
      comparison.groups.push_back({{}, run, {}});
    }
    comparison.groups[at].names.push_back(run.name);
    for (const ComparedRun::Value& v : run.values)
      if (const auto column = column_of(v.column); column != columns.end()) {
        Measure& measure = comparison.groups[at].measures[column->heading];
        measure.values.push_back(v.value);
        measure.seeds.push_back(run.options.value("seed", ordered_json()).dump());
      }
  }
  const ordered_json first = without_seed(runs[0].options);
  for (const auto& item : first.items()) {
    const auto differs = [&](const RunGroup& g) { return g.first.options.at(item.key()) != item.value(); };
    if (std::any_of(comparison.groups.begin(), comparison.groups.end(), differs))
      comparison.differences.push_back(item.key());
  }
  note_unlike(comparison, runs);
  for (const ComparedRun& run : runs)
    comparison.notes.insert(comparison.notes.end(), run.problems.begin(), run.problems.end());
  return comparison;
}

std::optional<PairedDifference> difference_from_first(const Comparison& comparison, const RunGroup& group,
                                                      const Column& column) {
  const auto by_seed = [&](const RunGroup& g) {
    std::map<std::string, double> values;
    const auto found = g.measures.find(column.heading);
    if (found == g.measures.end()) return values;
    const Measure& m = found->second;
    for (size_t i = 0; i < m.values.size(); ++i)
      if (!values.emplace(m.seeds[i], m.values[i]).second) return std::map<std::string, double>();
    return values;
  };
  if (&group == &comparison.groups[0]) return std::nullopt;
  const std::map<std::string, double> of_first = by_seed(comparison.groups[0]);
  std::vector<double> own, first;
  for (const auto& [seed, value] : by_seed(group))
    if (const auto pair = of_first.find(seed); pair != of_first.end())
      own.push_back(value), first.push_back(pair->second);
  return own.size() < 2 ? std::nullopt : std::optional(paired_difference(own, first));
}

Table numbers_table(const Comparison& comparison) {
  Table table{{"measure", "of", "mean", "deviation", "difference", "95 % interval", "by seed"}, {}};
  for (const Column& column : comparison.columns) {
    const auto text = [&](double value) {
      return shown(value, column.decimals) + (column.duration ? " s" : "");
    };
    for (const RunGroup& g : comparison.groups) {
      const auto found = g.measures.find(column.heading);
      if (found == g.measures.end()) continue;
      const Measure& m = found->second;
      const auto difference = difference_from_first(comparison, g, column);
      std::string values;
      for (size_t i = 0; i < m.values.size(); ++i)
        values += fmt::format("{}{}: {}", i ? ", " : "", m.seeds[i], text(m.values[i]));
      table.rows.push_back(
          {column.heading, name_of(g), text(m.mean()), m.values.size() > 1 ? text(m.spread()) : "-",
           difference ? text(difference->mean) : "-",
           difference ? fmt::format("{} to {}", text(difference->low()), text(difference->high())) : "-",
           values});
    }
  }
  return table;
}

Table to_table(const Comparison& comparison) {
  Table table{{"run", "n", "attention", "params"}, {}, {Best::none, Best::none, Best::none, Best::none}};
  for (const Column& column : comparison.columns) {
    table.columns.push_back(column.heading);
    // The best value is marked only if there are several.
    const auto has = [&](const RunGroup& g) { return g.measures.contains(column.heading); };
    const bool mark = std::count_if(comparison.groups.begin(), comparison.groups.end(), has) > 1;
    table.best.push_back(mark ? column.best : Best::none);
  }
  for (const RunGroup& g : comparison.groups) {
    table.rows.push_back({name_of(g), std::to_string(g.names.size()), g.first.attention,
                          g.first.parameters ? format_count(double(*g.first.parameters)) : "-"});
    for (const Column& column : comparison.columns) {
      const auto m = g.measures.find(column.heading);
      table.rows.back().push_back(m == g.measures.end() ? "-" : cell(column, m->second, g.names.size()));
    }
  }
  return table;
}

Table differences_table(const Comparison& comparison) {
  Table table{{"option"}, {}};
  for (const RunGroup& g : comparison.groups) table.columns.push_back(name_of(g));
  for (const std::string& key : comparison.differences) {
    table.rows.push_back({key});
    for (const RunGroup& g : comparison.groups)
      table.rows.back().push_back(option_text(g.first.options.at(key)));
  }
  return table;
}

std::string describe_shared(const Comparison& comparison) {
  std::string text;
  for (const Column& column : comparison.columns)
    if (text.empty() && !column.with.empty()) text = "in parentheses: " + column.with[0].first;
  for (const auto& [key, value] : comparison.shared) text += "; " + key + ": " + value;
  return text;
}

ordered_json to_json(const Comparison& comparison) {
  ordered_json rows = ordered_json::array();
  for (const RunGroup& g : comparison.groups) {
    ordered_json row = {{"runs", g.names}};
    if (!g.first.group.empty()) row["variant"] = g.first.group;
    if (g.first.options.contains("attention")) row["attention"] = g.first.options.at("attention");
    row["parameters"] = g.first.parameters ? ordered_json(*g.first.parameters) : ordered_json();
    row["options"] = ordered_json::object();
    for (const std::string& key : comparison.differences) row["options"][key] = g.first.options.at(key);
    row["measures"] = ordered_json::object();
    for (const Column& column : comparison.columns) {
      const auto found = g.measures.find(column.heading);
      if (found == g.measures.end()) continue;
      const Measure& m = found->second;
      ordered_json& measure = row["measures"][column.heading];
      measure = {{"mean", m.mean()}, {"std", ordered_json()}, {"values", m.values}, {"seeds", m.seeds}};
      if (m.values.size() > 1) measure["std"] = m.spread();
      if (const auto d = difference_from_first(comparison, g, column))
        measure["difference"] = {{"from", name_of(comparison.groups[0])},
                                 {"mean", d->mean},
                                 {"low", d->low()},
                                 {"high", d->high()},
                                 {"pairs", d->pairs}};
      if (column.duration) measure["unit"] = "s";
      for (const auto& [key, value] : column.with) measure["with"][key] = value;
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
  if (const std::string shared = describe_shared(comparison); !shared.empty()) print("{}\n\n", shared);
  if (!comparison.differences.empty()) show(differences_table(comparison));
  for (const std::string& text : comparison.notes) note("note: {}\n", text);
}

}  // namespace pursuit::apps
