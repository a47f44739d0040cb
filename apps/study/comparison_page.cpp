#include "apps/study/comparison_page.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "apps/study/inspection.h"
#include "apps/study/reproduce.h"

namespace pursuit::apps {

namespace {

// A run has one colour in all charts; runs without any curve (quantised ones) take none.
void add_curves(Report& report, const std::vector<const RunFolder*>& runs, const std::vector<Curve>& curves) {
  const auto has_points = [](const LineSeries& series) { return !series.points.empty(); };
  std::vector<LineChart> charts;
  for (const Curve& curve : curves) charts.push_back({curve.title, "step", curve.unit, {}});
  for (const RunFolder* run : runs) {
    std::vector<LineSeries> all;
    for (const Curve& curve : curves) all.push_back(series_of(*run, curve, curve.lines[0], run->name));
    if (std::none_of(all.begin(), all.end(), has_points)) continue;
    for (size_t i = 0; i < all.size(); ++i) charts[i].series.push_back(std::move(all[i]));
  }
  bool begun = false;
  for (const LineChart& chart : charts) {
    if (std::none_of(chart.series.begin(), chart.series.end(), has_points)) continue;
    if (!begun) report.section("Training");
    begun = true;
    report.chart(chart);
  }
}

}  // namespace

std::vector<const RunFolder*> drawn_runs(const std::vector<const RunFolder*>& runs) {
  std::vector<const RunFolder*> drawn;
  std::set<std::string> groups;
  for (const RunFolder* run : runs)
    if (run->group.empty() || groups.insert(run->group).second) drawn.push_back(run);
  return drawn;
}

BarChart score_bars(const std::string& title, const Comparison& comparison) {
  BarChart bars{title, "%", {}, {}};
  for (const RunGroup& g : comparison.groups) bars.series.push_back({name_of(g), {}});
  for (const Column& column : comparison.columns) {
    if (!column.percent) continue;
    bars.groups.push_back(column.heading);
    for (size_t i = 0; i < comparison.groups.size(); ++i) {
      const auto& measures = comparison.groups[i].measures;
      const auto found = measures.find(column.heading);
      bars.series[i].values.push_back(found == measures.end() ? NAN : found->second.mean());
    }
  }
  return bars;
}

void write_comparison(const std::string& file, const std::string& app, const Comparison& comparison,
                      const std::vector<const RunFolder*>& runs, const ComparisonPage& page) {
  std::string names;
  for (const RunFolder* run : runs) names += (names.empty() ? "" : ", ") + run->name;
  Report report(page.title, names);
  report.section("Overview");
  std::string caption =
      "Runs that differ in their seed alone stand together: mean and sample standard deviation.";
  if (const std::string shared = describe_shared(comparison); !shared.empty())
    caption += " Numbers " + shared + ".";
  // The narrower orientation fits the page.
  const Table table = to_table(comparison);
  report.table(table.rows.size() < table.columns.size() ? transposed(table) : table, caption);
  for (const std::string& note : comparison.notes) report.paragraph("Note: " + note + ".");
  if (const BarChart bars = score_bars("Scores", comparison); !bars.groups.empty()) report.chart(bars);
  std::vector<Curve> curves = page.curves;
  for (Curve& curve : inspection_curves()) curves.push_back(std::move(curve));
  add_curves(report, drawn_runs(runs), curves);
  if (page.sections) page.sections(report);
  add_samples(report, "Samples", page.samples);
  report.section("Numbers");
  const std::string first = comparison.groups.empty() ? "" : name_of(comparison.groups[0]);
  report.table(
      numbers_table(comparison),
      "Mean and sample standard deviation over the seeds; difference: mean of the differences from " + first +
          " at the same seeds, with the 95 % interval of Student's t.");
  for (const ComparisonPage::Detail& detail : page.details) {
    if (detail.comparison.columns.empty()) continue;
    report.heading(detail.title);
    report.table(numbers_table(detail.comparison));
  }
  if (!comparison.differences.empty()) {
    report.section("Configuration");
    report.table(differences_table(comparison),
                 "The options in which the runs differ; the others are the same.");
  }
  report.section("Runs");
  std::string commands;
  for (const RunFolder* run : runs) commands += app + " report " + quoted(run->folder) + "\n";
  report.paragraph("Every run has a report of its own, written by:");
  report.code(commands);
  for (const RunFolder* run : runs)
    for (const std::string& problem : run->problems) report.paragraph(run->name + ": " + problem);
  report.write(file);
}

}  // namespace pursuit::apps
