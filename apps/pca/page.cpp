#include "apps/pca/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "apps/page/report.h"
#include "apps/pca/bars.h"
#include "apps/study/statistics.h"
#include "engine/base/error.h"

namespace pursuit::pca {

namespace {

std::string model_of(const Setting& s) {
  return fmt::format("{}, {}{}", choice_name(s.layer),
                     s.prompts == Prompts::drawn ? "prompts drawn at every step" : "exact risk",
                     s.in_context ? ", in context" : "");
}

std::vector<std::pair<std::string, std::string>> entries_of(const Result& r) {
  const Setting& s = r.experiment.setting;
  const bool over_d = r.experiment.axis == Axis::dim, drawn = s.prompts == Prompts::drawn;
  std::vector<std::pair<std::string, std::string>> entries = {
      {"experiment", r.experiment.name + ": " + r.experiment.title},
      {"model", model_of(s)},
      {"lambda", fmt::format("{:g}{}", s.lambda, over_d ? " / d" : "")},
      {"learning rate", fmt::format("{:g}{}", s.learning_rate, over_d ? " / d^2" : "")},
      {"steps, runs", fmt::format("{}, {}", s.steps, s.runs)},
      {"start", s.start > 0 ? fmt::format("{:g} N(0, I)", s.start) : "uniform, norm 1"}};
  if (!over_d) entries.emplace_back("d", fmt::format("{}", s.dim));
  if (r.experiment.axis == Axis::iteration && (drawn || s.layer == Layer::linear))
    entries.emplace_back("L", fmt::format("{}", s.length));
  if (drawn)
    entries.emplace_back("prompts a step",
                         s.in_context ? fmt::format("{} covariances x {}", s.covariances, s.per_covariance)
                                      : fmt::format("{}", s.per_covariance));
  if (s.in_context)
    entries.emplace_back("covariances", fmt::format("Wishart, n = {}, V = I + {:g} v v^T",
                                                    over_d ? "d" : fmt::format("{}", s.vectors), s.theta));
  entries.emplace_back("seed, time", fmt::format("{}, {:.1f} s", r.seed, r.seconds));
  return entries;
}

apps::Table ends_of(const std::vector<Result>& results) {
  apps::Table table{
      {"experiment", "at", "mean cosine", "least", "mean |mu|", "its limit", "mean risk", "its limit"}, {}};
  for (const Result& r : results) {
    const bool sweep = r.experiment.axis != Axis::iteration;
    for (const double x : sweep ? r.x : std::vector<double>{r.x.back()}) {
      const ExactRisk risk = theory_at(r, x);
      const std::vector<double> cosines = values_at(r, r.cosine, x);
      table.rows.push_back({"figure " + r.experiment.name,
                            fmt::format("{} {:.0f}", choice_name(r.experiment.axis), x),
                            fmt::format("{:.5f}", apps::mean_of(cosines)),
                            fmt::format("{:.5f}", *std::min_element(cosines.begin(), cosines.end())),
                            fmt::format("{:.4f}", apps::mean_of(values_at(r, r.norm, x))),
                            fmt::format("{:.4f}", risk.stationary_norm(0)),
                            fmt::format("{:.3f}", apps::mean_of(values_at(r, r.risk, x))),
                            fmt::format("{:.3f}", risk.stationary_risk(0))});
    }
  }
  return table;
}

}  // namespace

std::vector<Result> results_in(const std::string& folder) {
  std::vector<Result> results;
  for (const Experiment& experiment : all_experiments(false))
    if (std::optional<Result> r = read_result(folder, experiment.name)) results.push_back(std::move(*r));
  return results;
}

void write_page(const std::string& folder) {
  const std::vector<Result> all = results_in(folder);
  if (all.empty())
    fail("report",
         folder + " holds no results of pca; `pca run --figure 3b --out " + folder + "` makes some");
  std::map<std::string, const Result*> by_name;
  for (const Result& r : all) by_name[r.experiment.name] = &r;

  apps::Report page(
      "Attention-based PCA",
      "One attention layer that reconstructs its query learns the leading direction (arXiv 2605.18315).");
  std::vector<Bar> bars;
  for (const Result& r : all)
    for (Bar& bar : bars_of(r)) bars.push_back(std::move(bar));
  if (!bars.empty()) {
    page.section("What a reproduction shows");
    page.table(table_of(bars),
               "Experiments with the published steps; cosines are absolute and means over the runs.");
  }
  for (const Figure& figure : all_figures()) {
    std::vector<Result> shown;
    for (const std::string& name : figure.experiments)
      if (by_name.count(name)) shown.push_back(*by_name[name]);
    const size_t needed = figure.experiments.size() -
                          std::count(figure.experiments.begin(), figure.experiments.end(), "4b-script");
    if (shown.size() < needed) continue;
    page.section("Figure " + figure.name + ": " + figure.title);
    for (const Result& r : shown) page.key_values(entries_of(r));
    for (const apps::LineChart& chart : charts_of(figure, shown)) page.chart(chart);
    page.table(ends_of(shown));
  }
  page.write((std::filesystem::path(folder) / "report.html").string());
}

}  // namespace pursuit::pca
