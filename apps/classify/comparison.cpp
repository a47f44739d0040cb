#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "apps/classify/commands.h"
#include "apps/classify/run_record.h"
#include "apps/common/metrics.h"
#include "apps/common/report.h"

namespace pursuit::classify {

namespace {

using apps::Report;

// The folders' names, or the folders as given where names repeat.
std::vector<RunRecord> read_records(const std::vector<std::string>& folders) {
  std::vector<RunRecord> records;
  std::multiset<std::string> names;
  for (const std::string& folder : folders) {
    records.emplace_back(folder);
    names.insert(records.back().name);
  }
  for (RunRecord& r : records)
    if (names.count(r.name) > 1) r.name = r.folder;
  return records;
}

void add_overview(Report& report, const apps::Comparison& comparison, const std::vector<RunRecord>& records) {
  report.section("Overview");
  report.table(to_table(comparison),
               "Accuracies in %; runs that differ in their seed alone share a row: mean and sample standard "
               "deviation.");
  for (const std::string& note : comparison.notes) report.paragraph("Note: " + note + ".");
  apps::BarChart bars{"Accuracy", "%", {"clean", "under corruption"}, {}};
  for (const RunRecord& r : records) {
    if (!r.results) continue;
    const auto corrupted = mean_corrupted_top1(r.results->corrupted);
    bars.series.push_back(
        {r.name, {r.results->count > 0 ? 100 * r.results->top1 : NAN, corrupted ? 100 * *corrupted : NAN}});
  }
  if (!bars.series.empty()) report.chart(bars);
}

void add_training(Report& report, const std::vector<RunRecord>& records) {
  apps::LineChart loss{"Training loss", "step", "cross-entropy", {}},
      accuracy{"Test accuracy", "step", "%", {}};
  for (const RunRecord& r : records) {
    if (const auto points = apps::metric_series(r.metrics, "loss"); !points.empty())
      loss.series.push_back({.name = r.name, .points = points, .smoothing = 0.9});
    auto points = apps::metric_series(r.metrics, "test_accuracy");
    for (auto& [step, value] : points) value *= 100;
    if (!points.empty()) accuracy.series.push_back({.name = r.name, .points = points});
  }
  if (loss.series.empty() && accuracy.series.empty()) return;
  report.section("Training");
  if (!loss.series.empty()) report.chart(loss);
  if (!accuracy.series.empty()) report.chart(accuracy);
}

void add_corruptions(Report& report, const std::vector<RunRecord>& records) {
  std::vector<std::string> names;
  std::vector<std::map<std::string, double>> means;
  for (const RunRecord& r : records) {
    means.emplace_back();
    if (!r.results) continue;
    for (const CorruptionSummary& s : summarise(r.results->corrupted)) {
      means.back()[s.name] = 100 * s.top1;
      if (std::find(names.begin(), names.end(), s.name) == names.end()) names.push_back(s.name);
    }
  }
  if (names.empty()) return;
  report.section("Corruptions");
  apps::BarChart bars{"Accuracy per corruption", "%, mean over the severities", names, {}};
  apps::Table table{{"corruption"}, {}};
  for (const std::string& name : names) table.rows.push_back({name});
  for (size_t i = 0; i < records.size(); ++i) {
    bars.series.push_back({records[i].name, {}});
    table.columns.push_back(records[i].name);
    for (size_t n = 0; n < names.size(); ++n) {
      const auto it = means[i].find(names[n]);
      bars.series.back().values.push_back(it != means[i].end() ? it->second : NAN);
      table.rows[n].push_back(it != means[i].end() ? fmt::format("{:.2f}%", it->second) : "-");
    }
  }
  report.chart(bars);
  report.table(table);
}

void add_attacks(Report& report, const std::vector<RunRecord>& records) {
  bool begun = false;
  const auto begin = [&] {
    if (!begun) report.section("Attacks");
    begun = true;
  };
  // One chart per attack and space, a line per run.
  for (const auto& [attack, title] : {std::pair{"fgsm", "FGSM"}, {"pgd", "PGD"}})
    for (const char* space : {"normalised", "pixel"}) {
      apps::LineChart chart{
          fmt::format("Accuracy under {}, {} space", title, space), "budget (1/255)", "%", {}};
      for (const RunRecord& r : records) {
        if (!r.results) continue;
        if (const auto curve = attack_curve(*r.results, attack, space); !curve.empty())
          chart.series.push_back({.name = r.name, .points = curve});
      }
      if (chart.series.empty()) continue;
      begin();
      report.chart(chart);
    }

  apps::Table table{{"attack", "space", "budget"}, {}};
  std::map<std::tuple<std::string, std::string, double>, std::vector<std::string>> rows;
  for (size_t i = 0; i < records.size(); ++i) {
    table.columns.push_back(records[i].name);
    if (!records[i].results) continue;
    for (const Results::Attacked& a : records[i].results->attacked) {
      auto& cells = rows[{a.attack, a.space, a.budget}];
      cells.resize(records.size(), "-");
      cells[i] = percent(a.top1);
    }
  }
  for (const auto& [key, cells] : rows) {
    const auto& [attack, space, budget] = key;
    table.rows.push_back({attack, space, budget_text(attack, budget)});
    table.rows.back().insert(table.rows.back().end(), cells.begin(), cells.end());
  }
  if (table.rows.empty()) return;
  begin();
  report.table(table, "Top-1 accuracy under attack.");
}

}  // namespace

void write_comparison(const std::string& file, const std::vector<std::string>& folders) {
  const apps::Comparison comparison = compare_runs(folders);
  const std::vector<RunRecord> records = read_records(folders);
  std::string subtitle;
  for (const RunRecord& r : records) subtitle += (subtitle.empty() ? "" : ", ") + r.name;
  Report report(fmt::format("Comparison of {} image classifiers", records.size()), subtitle);
  add_overview(report, comparison, records);
  add_training(report, records);
  add_corruptions(report, records);
  add_attacks(report, records);
  if (!comparison.differences.empty()) {
    report.section("Configuration");
    report.table(differences_table(comparison),
                 "The options in which the runs differ; the others are the same.");
  }
  report.section("Runs");
  std::string commands;
  for (const RunRecord& r : records) commands += "classify report " + r.folder + "\n";
  report.paragraph("Every run has a report of its own, written by:");
  report.code(commands);
  for (const RunRecord& r : records)
    for (const std::string& problem : r.problems) report.paragraph(r.name + ": " + problem);
  report.write(file);
}

}  // namespace pursuit::classify
