#include "apps/lm/results.h"

#include <fmt/format.h>

#include <cmath>
#include <tuple>

#include "apps/common/evaluations.h"

namespace pursuit::lm {

namespace {

Results from_json(const nlohmann::ordered_json& j) {
  return {j.at("data"), j.at("split"), j.at("window"), j.at("attack"),
          j.at("ema"),  j.at("step"),  j.at("tokens"), j.at("loss")};
}

}  // namespace

double Results::perplexity() const { return std::exp(loss); }

nlohmann::ordered_json to_json(const Results& r) {
  return {{"data", r.data},     {"split", r.split}, {"window", r.window},
          {"attack", r.attack}, {"ema", r.ema},     {"step", r.step},
          {"tokens", r.tokens}, {"loss", r.loss},   {"perplexity", r.perplexity()}};
}

std::vector<Results> read_results(const std::string& folder) {
  return apps::read_evaluations<Results>(folder, from_json);
}

void add_results(const std::string& folder, const Results& results) {
  const auto key = [](const Results& r) { return std::tuple(r.data, r.split, r.window, r.attack, r.ema); };
  apps::add_evaluation<Results>(
      folder, results, from_json, to_json,
      [&](const Results& a, const Results& b) { return key(a) == key(b); },
      [](const Results& old, const Results& now) { return old.tokens > now.tokens ? old : now; });
}

apps::Table to_table(const std::vector<Results>& all) {
  apps::Table table{{"data", "split", "window", "word swap", "tokens", "loss", "perplexity"}, {}};
  for (const Results& r : all)
    table.rows.push_back({r.data, r.split, r.window, r.attack.empty() ? "none" : r.attack,
                          std::to_string(r.tokens), fmt::format("{:.4f}", r.loss),
                          fmt::format("{:.3f}", r.perplexity())});
  return table;
}

}  // namespace pursuit::lm
