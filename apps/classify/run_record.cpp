#include "apps/classify/run_record.h"

#include <fmt/format.h>

#include <algorithm>

#include "nn/vit.h"

namespace pursuit::classify {

RunRecord read_record(const std::string& folder) {
  RunRecord r{apps::RunFolder(folder), {}, {}};
  r.attempt("config.json", [&](const std::string& path) {
    r.config = config_from_json(apps::read_json_object(path), path);
  });
  r.attempt("eval.json", [&](const std::string&) { r.results = read_results(folder); });
  return r;
}

std::string describe_attention(const Config& c) {
  return apps::describe_attention(c, c.layer < 0 ? "every block" : fmt::format("block {}", c.layer));
}

std::optional<int64_t> parameter_count(const Config& c) {
  try {
    int64_t count = 0;
    const nn::VisionTransformer model(vit_config(c));
    for (const nn::NamedTensor& p : model.parameters()) count += p.tensor->numel();
    return count;
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::string percent(double fraction) { return fmt::format("{:.2f}%", 100 * fraction); }

std::string budget_text(const std::string& attack, double budget) {
  if (budget == 0) return "-";
  return fmt::format("{:g}", budget) + (attack == "fgsm" || attack == "pgd" ? "/255" : "");
}

std::vector<std::pair<double, double>> attack_curve(const Results& results, const std::string& attack,
                                                    const std::string& space) {
  std::vector<std::pair<double, double>> points;
  for (const Results::Attacked& a : results.attacked)
    if (a.attack == attack && a.space == space) points.emplace_back(a.budget, 100 * a.top1);
  std::sort(points.begin(), points.end());
  if (points.size() < 2) points.clear();
  return points;
}

}  // namespace pursuit::classify
