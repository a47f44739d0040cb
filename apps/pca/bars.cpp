#include "apps/pca/bars.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "apps/study/statistics.h"

namespace pursuit::pca {

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

double least(const std::vector<double>& values) { return *std::min_element(values.begin(), values.end()); }

// The mean cosine at x, and over those x of a sweep that are at least `from`, the least of the means.
double mean_at(const Result& r, double x) { return apps::mean_of(values_at(r, r.cosine, x)); }
double least_mean(const Result& r, double from) {
  double found = inf;
  for (const double x : r.x)
    if (x >= from) found = std::min(found, mean_at(r, x));
  return found;
}

}  // namespace

std::vector<Bar> bars_of(const Result& r) {
  const std::string& name = r.experiment.name;
  const auto has_settings = [&](bool full) {
    const Experiment e = experiment_named(name, full);
    return r.experiment.setting == e.setting && r.experiment.values == e.values;
  };
  if (!has_settings(false) && !has_settings(true)) return {};
  std::vector<Bar> bars;
  const auto at_least = [&](const std::string& what, double low, double got) {
    bars.push_back({name, what, low, inf, got});
  };
  const double end = r.x.back();
  const auto mean = [&](double low) {
    at_least(fmt::format("mean cosine at step {:.0f}", end), low, mean_at(r, end));
  };
  const auto every = [&](double low) {
    at_least(fmt::format("least cosine at step {:.0f}", end), low, least(values_at(r, r.cosine, end)));
  };
  const auto norm_within = [&](double share) {
    const double limit = theory_at(r, end).stationary_norm(0);
    bars.push_back({name, fmt::format("mean |mu| over its limit {:.4f}", limit), 1 - share, 1 + share,
                    apps::mean_of(values_at(r, r.norm, end)) / limit});
  };
  if (name == "3b") mean(0.98), every(0.95);
  if (name == "4b") mean(0.999), every(0.99);
  if (name == "2") every(0.99), at_least("mean cosine at step 300", 0.95, mean_at(r, 300));
  if (name == "3a") mean(0.99), norm_within(0.03);
  if (name == "4a") mean(0.999), norm_within(0.01);
  if (name == "7a") mean(0.99);
  if (name == "7b") bars.push_back({name, "mean cosine about step 10000", -inf, 0.85, mean_at(r, end)});
  if (name == "5a" || name == "8a") at_least("mean cosine at L = 3", 0.95, mean_at(r, 3));
  if (name == "5b") bars.push_back({name, "mean cosine at L = 3", 0.6, 0.95, mean_at(r, 3)});
  if (name == "5a" || name == "5b") at_least("least mean cosine for L >= 10", 0.99, least_mean(r, 10));
  if (name == "8a") at_least("least mean cosine for L >= 13", 0.99, least_mean(r, 13));
  if (name == "6a" || name == "6b") {
    at_least("least mean cosine for d <= 98", 0.97, least_mean(r, 3));
    at_least("mean cosine at d = 3", 0.999, mean_at(r, 3));
  }
  if (name == "8b") at_least("least mean cosine for d <= 98", 0.998, least_mean(r, 3));
  return bars;
}

apps::Table table_of(const std::vector<Bar>& bars) {
  apps::Table table{{"experiment", "what", "needed", "got", "met"}, {}};
  for (const Bar& bar : bars) {
    const std::string needed = bar.low == -inf   ? fmt::format("below {:g}", bar.high)
                               : bar.high == inf ? fmt::format("at least {:g}", bar.low)
                                                 : fmt::format("{:g} to {:g}", bar.low, bar.high);
    table.rows.push_back({"figure " + bar.experiment, bar.what, needed, fmt::format("{:.4f}", bar.got),
                          bar.met() ? "yes" : "no"});
  }
  return table;
}

}  // namespace pursuit::pca
