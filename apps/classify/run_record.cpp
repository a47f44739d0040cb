#include "apps/classify/run_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace pursuit::classify {

std::string describe_attention(const Config& c) { return apps::describe_attention(c, c.depth); }

const Results* main_evaluation(const std::vector<Results>& results, const Config& c) {
  return apps::main_evaluation(results, apps::evaluated_weights(c), [&](const Results& r) {
    return std::pair(r.data == describe_data(c), c.data_fingerprint.ends_with(" " + r.fingerprint));
  });
}

std::string percent(double fraction) {
  return std::isnan(fraction) ? "-" : fmt::format("{:.2f}%", 100 * fraction);
}

std::string budget_text(const std::string& attack, double budget) {
  if (budget == 0) return "-";
  return fmt::format("{:g}", budget) + (attack == "fgsm" || attack == "pgd" ? "/255" : "");
}

std::vector<std::pair<double, double>> attack_curve(const Results& results, const std::string& attack,
                                                    const std::string& space) {
  std::vector<std::pair<double, double>> points;
  for (const Results::Attacked& a : results.attacked)
    if (a.attack == attack && a.space == space) points.emplace_back(a.budget, 100 * a.top1);
  if (points.empty()) return points;
  if (!std::isnan(results.top1)) points.emplace_back(0, 100 * results.top1);
  std::sort(points.begin(), points.end());
  return points;
}

}  // namespace pursuit::classify
