#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "apps/pca/page.h"
#include "apps/study/statistics.h"

namespace pursuit::pca {

namespace {

using apps::LineChart, apps::LineSeries;
using Points = std::vector<std::pair<double, double>>;

std::vector<double> of_runs(const Values& values, size_t at) {
  std::vector<double> out;
  for (const std::vector<double>& run : values) out.push_back(run[at]);
  return out;
}

// The mean over the runs, with a band of the 95 % confidence interval of the mean or of one standard
// deviation.
LineSeries mean_series(const std::string& name, const Result& r, const Values& values, bool dashed = false) {
  const bool sweep = r.experiment.axis != Axis::iteration;
  LineSeries series{.name = name, .dashed = dashed};
  const auto runs = int64_t(values.size());
  for (size_t at = 0; at < r.x.size(); ++at) {
    const std::vector<double> all = of_runs(values, at);
    const double mean = apps::mean_of(all);
    series.points.emplace_back(r.x[at], mean);
    if (dashed || runs < 2) continue;
    const double sd = apps::deviation_of(all);
    const double half = sweep ? sd : apps::student_t(runs - 1) * sd / std::sqrt(double(runs));
    series.band.emplace_back(mean - half, mean + half);
  }
  return series;
}

LineSeries dashed(const std::string& name, Points points) {
  return {.name = name, .points = std::move(points), .dashed = true};
}
LineSeries level(const std::string& name, const Result& r, double y) {
  return dashed(name, {{r.x.front(), y}, {r.x.back(), y}});
}

// What theory says at every x.
template <class F> LineSeries theory_series(const std::string& name, const Result& r, const F& value) {
  Points points;
  for (const double x : r.x) points.emplace_back(x, value(theory_at(r, x)));
  return dashed(name, std::move(points));
}

// The mean cosine of linear growth from the starts: component j of mu grows by 1 - learning rate x curvature
// at 0 per step. Up to where mu's norm would be that of the minimum.
LineSeries early_growth(const Result& r) {
  const ExactRisk risk = theory_at(r, 0);
  const Covariance& sigma = risk.covariance();
  const Values starts = starts_of(r.experiment.setting, r.seed);
  Points points;
  for (const double x : r.x) {
    double cosines = 0, squares = 0;
    for (const std::vector<double>& mu : starts) {
      double all = 0, first = 0;
      for (int64_t j = 0; j < sigma.dim; ++j) {
        const double growth = 1 - r.experiment.setting.learning_rate * risk.curvature_at_zero(j);
        const double part = dot(mu, sigma.vector(j)) * std::pow(growth, x);
        all += part * part;
        if (j == 0) first = std::fabs(part);
      }
      cosines += first / std::sqrt(all) / double(starts.size());
      squares += all / double(starts.size());
    }
    if (std::sqrt(squares) > risk.stationary_norm(0)) break;
    points.emplace_back(x, cosines);
  }
  return dashed("theory: growth from 0", std::move(points));
}

// Near the minimum the slowest component of tan falls by one factor a step, and 1 - cosine by its square: the
// slope that a curve ends with. From the middle on, through the last value; empty if the runs are not near 1
// by then.
LineSeries slowest_decay(const Result& r) {
  LineSeries series = dashed("theory: slowest late rate", {});
  const size_t middle = r.x.size() / 2, last = r.x.size() - 1;
  if (!(apps::mean_of(of_runs(r.cosine, middle)) > 0.95)) return series;
  const double factor = 1 - r.experiment.setting.learning_rate * theory_at(r, 0).slowest_curvature();
  const double distance = 1 - apps::mean_of(of_runs(r.cosine, last));
  for (size_t at = middle; at <= last; ++at)
    series.points.emplace_back(r.x[at], distance * std::pow(factor, 2 * (r.x[at] - r.x[last])));
  return series;
}

std::string x_label(const Result& r) {
  switch (r.experiment.axis) {
    case Axis::iteration:
      return "iteration";
    case Axis::length:
      return "L, tokens of a prompt";
    default:
      return "d, dimension";
  }
}

// "drawn prompts" or "exact risk", where a chart has several trainings.
std::string label_of(const Result& r, bool several) {
  if (!several) return "attention";
  if (r.experiment.setting.script_gradient) return "script's gradient";
  if (r.experiment.setting.prompts == Prompts::drawn) return "prompts of 100 tokens";
  return r.experiment.setting.layer == Layer::softmax ? "infinite prompts" : "exact risk";
}

void add_references(LineChart& chart, const Result& r) {
  if (!r.exact.empty())
    chart.series.push_back(mean_series("theory: exact risk, same starts", r, r.exact, true));
  if (r.oja.empty()) return;
  chart.series.push_back(mean_series("Oja's rule, same tokens", r, r.oja, true));
  chart.series.push_back(mean_series("sample PCA, same tokens", r, r.sample_pca, true));
}

LineChart misalignment(const std::string& title, const Result& r) {
  LineChart chart{title + ": distance from 1", x_label(r), "1 - cosine similarity", {}};
  chart.log_y = true;
  const auto rest = [](const LineSeries& cosine) {
    Points points;
    for (const auto& point : cosine.points) points.emplace_back(point.first, 1 - point.second);
    return points;
  };
  chart.series.push_back({.name = "attention", .points = rest(mean_series("", r, r.cosine))});
  if (r.experiment.axis == Axis::iteration)
    if (LineSeries decay = slowest_decay(r); !decay.points.empty()) chart.series.push_back(std::move(decay));
  if (!r.oja.empty()) {
    chart.series.push_back(dashed("Oja's rule, same tokens", rest(mean_series("", r, r.oja))));
    chart.series.push_back(dashed("sample PCA, same tokens", rest(mean_series("", r, r.sample_pca))));
  }
  return chart;
}

// |mu| and the risk, with the minimum and the first saddle.
std::vector<LineChart> ends(const std::string& title, const std::vector<Result>& results) {
  const Result& r = results.front();
  const bool several = results.size() > 1, sweep = r.experiment.axis != Axis::iteration;
  LineChart norms{title + ": norm of mu", x_label(r), "|mu|", {}};
  LineChart risks{title + ": risk", x_label(r), "risk", {}};
  for (const Result& each : results) {
    norms.series.push_back(mean_series(label_of(each, several), each, each.norm));
    risks.series.push_back(mean_series(label_of(each, several), each, each.risk));
  }
  const bool is_limit =
      r.experiment.setting.prompts == Prompts::drawn && r.experiment.setting.layer == Layer::softmax;
  const std::string minimum = is_limit ? "theory: minimum, L = infinity" : "theory: minimum";
  const auto norm_of = [](int64_t i) {
    return [i](const ExactRisk& risk) { return risk.stationary_norm(i); };
  };
  const auto risk_of = [](int64_t i) {
    return [i](const ExactRisk& risk) { return risk.stationary_risk(i); };
  };
  if (sweep) {
    norms.series.push_back(theory_series(minimum, r, norm_of(0)));
    risks.series.push_back(theory_series(minimum, r, risk_of(0)));
  } else {
    const ExactRisk risk = theory_at(r, 0);
    norms.series.push_back(level(minimum, r, risk.stationary_norm(0)));
    norms.series.push_back(level("theory: saddle at u_2", r, risk.stationary_norm(1)));
    risks.series.push_back(level(minimum, r, risk.stationary_risk(0)));
    risks.series.push_back(level("theory: saddle at u_2", r, risk.stationary_risk(1)));
  }
  return {norms, risks};
}

}  // namespace

std::vector<LineChart> charts_of(const Figure& figure, const std::vector<Result>& results) {
  const Result& first = results.front();
  const bool several = results.size() > 1, sweep = first.experiment.axis != Axis::iteration;
  const std::string title = "Figure " + figure.name;
  LineChart cosines{
      title, x_label(first), sweep ? "final absolute cosine similarity" : "absolute cosine similarity", {}};
  for (const Result& r : results) cosines.series.push_back(mean_series(label_of(r, several), r, r.cosine));
  for (LineSeries& series : cosines.series)
    for (auto& [low, high] : series.band) low = std::max(low, 0.0), high = std::min(high, 1.0);
  const bool own = figure.name == first.experiment.name;  // else it puts two other figures together
  if (own) add_references(cosines, first);
  if (own && !sweep && first.experiment.setting.prompts == Prompts::exact)
    cosines.series.push_back(early_growth(first));
  cosines.series.push_back(level("1", first, 1));
  cosines.caption = sweep ? "Mean over the runs with one standard deviation."
                          : "Mean over the runs with its 95 % confidence interval.";
  std::vector<LineChart> charts = {cosines};
  if (!own) return charts;
  charts.push_back(misalignment(title, first));
  for (LineChart& chart : ends(title, results)) charts.push_back(std::move(chart));
  return charts;
}

}  // namespace pursuit::pca
