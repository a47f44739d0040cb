#include "apps/lm/results.h"

#include <fmt/format.h>

#include <cmath>
#include <tuple>

namespace pursuit::lm {

double Results::perplexity() const { return std::exp(loss); }

nlohmann::ordered_json to_json(const Results& r) {
  nlohmann::ordered_json json = apps::to_json(r, "tokens");
  json.update({{"split", r.split},
               {"window", r.window},
               {"attack", r.attack},
               {"loss", r.loss},
               {"perplexity", r.perplexity()}});
  if (!r.objective.empty()) json["objective"] = r.objective;
  return json;
}

void from_json(const nlohmann::ordered_json& j, std::vector<Results>& all) {
  Results r;
  static_cast<apps::Conditions&>(r) = apps::conditions_from_json(j, "tokens");
  j.at("split").get_to(r.split);
  j.at("window").get_to(r.window);
  j.at("attack").get_to(r.attack);
  j.at("loss").get_to(r.loss);
  if (j.contains("objective")) j.at("objective").get_to(r.objective);
  all.push_back(std::move(r));
}

bool alike(const Results& a, const Results& b) {
  return apps::alike(a, b) && std::tie(a.split, a.window, a.attack, a.objective) ==
                                  std::tie(b.split, b.window, b.attack, b.objective);
}

apps::Table to_table(const std::vector<Results>& all) {
  apps::Table table{{"data", "split", "window", "contamination", "weights", "tokens", "loss", "perplexity"},
                    {}};
  for (const Results& r : all)
    table.rows.push_back({r.data, r.split, r.objective.empty() ? r.window : r.window + ", " + r.objective,
                          r.attack.empty() ? "none" : r.attack, r.weights, std::to_string(r.count),
                          fmt::format("{:.4f}", r.loss), fmt::format("{:.3f}", r.perplexity())});
  return table;
}

}  // namespace pursuit::lm
