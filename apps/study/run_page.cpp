#include "apps/study/run_page.h"

#include <fmt/format.h>

#include <filesystem>
#include <set>

#include "apps/terminal/text.h"

namespace pursuit::apps {

namespace {

std::vector<Highlight> highlights_of(const RunFolder& run, const RunPage& page,
                                     const std::optional<PageConfig>& config) {
  std::vector<Highlight> all = page.highlights;
  if (!config) return all;
  if (config->parameters) all.push_back({"Parameters", format_count(double(*config->parameters))});
  if (const auto rate = run.per_second(config->unit))
    all.push_back({"Throughput", format_count(*rate) + "/s", "training " + config->unit});
  if (const auto share = run.data_wait())
    all.push_back({"Waiting for data", fmt::format("{:.1f} %", 100 * *share), "of the training time"});
  if (const auto seconds = run.training_seconds())
    all.push_back({"Training time", format_duration(*seconds), "with evaluations"});
  return all;
}

void add_training(Report& report, const RunFolder& run, std::vector<Curve> curves, const std::string& unit) {
  if (run.metrics.empty()) return;
  report.section("Training");
  curves.push_back({.title = "Learning rate", .unit = "", .lines = {{"lr", "lr"}}});
  curves.push_back(
      {.title = "Throughput", .unit = unit + "/s", .lines = {{unit + "_per_second", "training"}}});
  curves.push_back(
      {.title = "Waiting for data", .unit = "share of the time", .lines = {{"data_wait", "training"}}});
  for (const Curve& curve : curves) {
    LineChart chart{.title = curve.title,
                    .x_label = "step",
                    .y_label = curve.unit,
                    .series = {},
                    .caption = curve.caption};
    for (const Curve::Line& line : curve.lines)
      if (LineSeries series = series_of(run, curve, line, line.name); !series.points.empty())
        chart.series.push_back(std::move(series));
    if (!chart.series.empty()) report.chart(chart);
  }
}

void add_configuration(Report& report, const RunFolder& run, const RunPage& page, const PageConfig& config) {
  report.section("Configuration");
  std::vector<std::pair<std::string, std::string>> entries;
  for (const auto& [name, value] : config.options.items())
    if (const std::string text = option_text(value); !text.empty()) entries.emplace_back(name, text);
  entries.insert(entries.end(), page.facts.begin(), page.facts.end());
  report.key_values(entries);
  report.section("Reproduce");
  std::string commands = config.train_command + "\n";
  std::set<std::string> listed;
  for (const std::string& command : page.commands)
    if (listed.insert(command).second) commands += command + "\n";
  report.code(commands + config.app + " report " + quoted(run.folder) + "\n");
}

}  // namespace

void add_samples(Report& report, const std::string& title, const std::function<void(Report&)>& samples) {
  if (!samples) return;
  report.section(title);
  try {
    samples(report);
  } catch (const std::exception& e) {
    report.paragraph(
        fmt::format("Left out, because the model or its data could not be opened: {}", e.what()));
  }
}

Cells condition_cells(const Conditions& c, const std::string& unit) {
  return {{"data", c.data},
          {unit, std::to_string(c.count)},
          {"weights", c.weights},
          {"step", std::to_string(c.step)},
          {"dtype", c.dtype.empty() ? "-" : c.dtype}};
}

void write_page(const RunFolder& run, const RunPage& page, const Table& evaluations,
                const std::optional<PageConfig>& config) {
  Report report(page.title, page.subtitle);
  if (const auto highlights = highlights_of(run, page, config); !highlights.empty())
    report.highlights(highlights);
  add_training(report, run, page.curves, config ? config->unit : "images");
  if (page.results) page.results(report);
  if (!evaluations.rows.empty()) {
    report.section("All evaluations");
    report.table(evaluations,
                 "Everything in eval.json, the one written last at the end. " + page.evaluations_caption);
  }
  add_samples(report, page.samples_title, page.samples);
  if (config) add_configuration(report, run, page, *config);
  if (!run.problems.empty()) report.section("Not in this report");
  for (const std::string& problem : run.problems) report.paragraph(problem);
  report.write((std::filesystem::path(run.folder) / "report.html").string());
}

}  // namespace pursuit::apps
