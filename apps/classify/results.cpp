#include "apps/classify/results.h"

#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "apps/common/evaluations.h"
#include "apps/common/run_folder.h"
#include "data/corruptions.h"
#include "engine/error.h"

namespace pursuit::classify {

using nlohmann::ordered_json;

namespace {

double number(const ordered_json& json, const char* key) {
  const ordered_json& value = json.at(key);
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

Results from_json(const ordered_json& json) {
  Results r;
  json.at("data").get_to(r.data);
  json.at("ema").get_to(r.ema);
  json.at("step").get_to(r.step);
  json.at("seed").get_to(r.seed);
  json.at("count").get_to(r.count);
  r.top1 = number(json, "top1");
  r.top5 = number(json, "top5");
  r.loss = number(json, "loss");
  json.at("classes").get_to(r.classes);
  json.at("confusion").get_to(r.confusion);
  if (!r.confusion.empty() && r.confusion.size() != r.classes.size() * r.classes.size())
    fail("eval.json", "the confusion matrix has " + std::to_string(r.confusion.size()) + " entries, need " +
                          std::to_string(r.classes.size()) + " squared");
  for (const ordered_json& c : json.at("corrupted"))
    r.corrupted.push_back(
        {c.at("name"), c.at("severity"), c.at("count"), number(c, "top1"), number(c, "top5")});
  for (const ordered_json& a : json.at("attacked"))
    r.attacked.push_back({a.at("attack"), a.at("space"), number(a, "budget"), a.at("count"),
                          number(a, "top1"), number(a, "top5"), number(a, "l2")});
  return r;
}

}  // namespace

std::string describe_data(const Config& config) {
  if (config.data.empty()) return "synthetic test";
  std::string text = apps::last_name(config.data) + " test";
  for (const std::string& file : config.test_files)
    text += (file == config.test_files[0] ? ": " : ", ") + file;
  return text;
}

ordered_json to_json(const Results& r) {
  ordered_json json = {{"data", r.data},   {"ema", r.ema},   {"step", r.step}, {"seed", r.seed},
                       {"count", r.count}, {"top1", r.top1}, {"top5", r.top5}, {"loss", r.loss}};
  json["classes"] = r.classes;
  json["confusion"] = r.confusion;
  json["corrupted"] = ordered_json::array();
  for (const auto& c : r.corrupted)
    json["corrupted"].push_back(
        {{"name", c.name}, {"severity", c.severity}, {"count", c.count}, {"top1", c.top1}, {"top5", c.top5}});
  json["attacked"] = ordered_json::array();
  for (const auto& a : r.attacked)
    json["attacked"].push_back({{"attack", a.attack},
                                {"space", a.space},
                                {"budget", a.budget},
                                {"count", a.count},
                                {"top1", a.top1},
                                {"top5", a.top5},
                                {"l2", a.l2}});
  return json;
}

std::optional<Results> read_results(const std::string& folder) {
  std::vector<Results> all = apps::read_evaluations(folder, from_json);
  if (all.empty()) return std::nullopt;
  return std::move(all.back());
}

void merge_results(const std::string& folder, const Results& fresh) {
  const auto same = [](const Results& a, const Results& b) { return a.data == b.data && a.ema == b.ema; };
  const auto unite = [](const Results& old, const Results& now) {
    Results both = old.count > now.count ? old : now;
    both.corrupted = apps::united(old.corrupted, now.corrupted,
                                  [](const auto& c) { return std::pair(c.name, c.severity); });
    both.attacked = apps::united(old.attacked, now.attacked,
                                 [](const auto& a) { return std::tuple(a.attack, a.space, a.budget); });
    return both;
  };
  apps::add_evaluation(folder, fresh, from_json, to_json, same, unite);
}

std::vector<CorruptionSummary> summarise(const std::vector<Results::Corrupted>& corrupted) {
  std::vector<CorruptionSummary> all;
  for (const std::string& name : data::corruption_names()) {
    CorruptionSummary s{.name = name, .ce = {}};
    for (const auto& c : corrupted) {
      if (c.name != name) continue;
      ++s.severities;
      s.top1 += c.top1;
      s.top5 += c.top5;
    }
    if (s.severities == 0) continue;
    s.top1 /= s.severities;
    s.top5 /= s.severities;
    if (s.severities == 5) s.ce = (1 - s.top1) / data::alexnet_error(name);
    all.push_back(std::move(s));
  }
  return all;
}

std::optional<double> mean_corrupted_top1(const std::vector<Results::Corrupted>& corrupted) {
  const auto all = summarise(corrupted);
  double sum = 0;
  for (const CorruptionSummary& s : all) sum += s.top1;
  return all.empty() ? std::nullopt : std::optional(sum / double(all.size()));
}

std::optional<double> mean_corruption_error(const std::vector<Results::Corrupted>& corrupted) {
  const auto all = summarise(corrupted);
  double sum = 0;
  for (const CorruptionSummary& s : all) {
    if (!s.ce) return std::nullopt;
    sum += *s.ce;
  }
  if (all.size() != data::corruption_names().size()) return std::nullopt;
  return sum / double(all.size());
}

}  // namespace pursuit::classify
