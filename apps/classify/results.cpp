#include "apps/classify/results.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <tuple>

#include "apps/common/json.h"
#include "apps/common/run_folder.h"
#include "data/corruptions.h"
#include "engine/core/error.h"

namespace pursuit::classify {

using nlohmann::ordered_json;

namespace {

double number(const ordered_json& json, const char* key) {
  const ordered_json& value = json.at(key);
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

Results::Corrupted corrupted_from(const ordered_json& c) {
  return {c.at("name"), apps::member_of<int>(c, "severity"), number(c, "top1"), number(c, "top5")};
}

Results::Attacked attacked_from(const ordered_json& a) {
  return {a.at("attack"),    a.at("space"),     number(a, "budget"), a.value("settings", ""),
          number(a, "top1"), number(a, "top5"), number(a, "l2"),     a.value("arguments", "")};
}

// In older files a corruption or an attack may have been on fewer pictures than the entry's: such ones become
// entries of their own, whose other scores are not known.
void from_json(const ordered_json& json, std::vector<Results>& all) {
  Results r;
  static_cast<apps::Conditions&>(r) = apps::conditions_from_json(json);
  r.seed = apps::member_of<uint64_t>(json, "seed");
  r.frost = json.value("frost", "");
  const Results none = r;
  std::map<int64_t, Results> fewer;  // by the number of pictures
  const auto of = [&](const ordered_json& item) -> Results& {
    const auto count = apps::member_of<int64_t>(item, "count");
    Results& entry = count == r.count ? r : fewer.try_emplace(count, none).first->second;
    entry.count = count;
    return entry;
  };
  for (const ordered_json& c : json.at("corrupted")) of(c).corrupted.push_back(corrupted_from(c));
  for (const ordered_json& a : json.at("attacked")) of(a).attacked.push_back(attacked_from(a));
  r.top1 = number(json, "top1");
  r.top5 = number(json, "top5");
  r.loss = number(json, "loss");
  json.at("classes").get_to(r.classes);
  if (json.contains("left_out")) r.left_out = apps::member_of<int64_t>(json, "left_out");
  r.confusion = apps::member_of<std::vector<int64_t>>(json, "confusion");
  if (!r.confusion.empty() && r.confusion.size() != r.classes.size() * r.classes.size())
    fail("eval.json", "the confusion matrix has " + std::to_string(r.confusion.size()) + " entries, need " +
                          std::to_string(r.classes.size()) + " squared");
  for (auto& [count, entry] : fewer) {
    entry.classes = r.classes;
    entry.left_out = r.left_out;
    all.push_back(std::move(entry));
  }
  all.push_back(std::move(r));
}

// ImageNet-1k's classes are WordNet's numbers, "n01440764".
bool has_imagenet_classes(const Results& r) {
  const auto is_wnid = [](const std::string& name) {
    return name.size() == 9 && name[0] == 'n' &&
           std::all_of(name.begin() + 1, name.end(), [](unsigned char c) { return std::isdigit(c); });
  };
  return r.classes.size() == 1000 && r.left_out == 0 &&
         std::all_of(r.classes.begin(), r.classes.end(), is_wnid);
}

}  // namespace

void Results::set_score(const Score& score, const std::vector<std::string>& model_classes,
                        const std::vector<int64_t>& only) {
  count = score.count();
  top1 = score.accuracy();
  top5 = score.accuracy5();
  loss = score.loss;
  classes.clear();
  confusion.clear();
  for (const int64_t c : only) classes.push_back(model_classes.at(size_t(c)));
  for (const int64_t row : only)
    for (const int64_t column : only) confusion.push_back(score.confusion.at(row, column));
  left_out = int64_t(model_classes.size() - only.size());
}

bool alike(const Results& a, const Results& b) {
  return apps::alike(a, b) && a.seed == b.seed && a.frost == b.frost;
}

std::string describe_data(const Config& config) {
  if (config.data.empty()) return "synthetic test";
  std::string text =
      apps::last_name(config.data) + (config.test_split.empty() ? "" : " ") + config.test_split;
  for (const std::string& file : config.test_files)
    text += (file == config.test_files[0] ? ": " : ", ") + file;
  return text;
}

ordered_json to_json(const Results& r) {
  ordered_json json = apps::to_json(r);
  json.update({{"seed", r.seed}, {"frost", r.frost}, {"top1", r.top1}, {"top5", r.top5}, {"loss", r.loss}});
  json["classes"] = r.classes;
  json["left_out"] = r.left_out;
  json["confusion"] = r.confusion;
  // For those who read one of them alone, each says on how many pictures it is and how they score untouched.
  json["corrupted"] = ordered_json::array();
  for (const auto& c : r.corrupted)
    json["corrupted"].push_back({{"name", c.name},
                                 {"severity", c.severity},
                                 {"count", r.count},
                                 {"clean_top1", r.top1},
                                 {"top1", c.top1},
                                 {"top5", c.top5}});
  json["attacked"] = ordered_json::array();
  for (const auto& a : r.attacked)
    json["attacked"].push_back({{"attack", a.attack},
                                {"space", a.space},
                                {"budget", a.budget},
                                {"count", r.count},
                                {"settings", a.settings},
                                {"clean_top1", r.top1},
                                {"top1", a.top1},
                                {"top5", a.top5},
                                {"l2", a.l2},
                                {"arguments", a.arguments}});
  return json;
}

std::vector<Results> read_results(const std::string& folder) {
  return apps::read_evaluations<Results>(folder, from_json);
}

void merge_results(const std::string& folder, const Results& fresh) {
  const auto unite = [](const Results& old, const Results& now) {
    Results both = now;
    both.corrupted = apps::united(old.corrupted, now.corrupted,
                                  [](const auto& c) { return std::tuple(c.name, c.severity); });
    both.attacked = apps::united(old.attacked, now.attacked, [](const auto& a) {
      return std::tuple(a.attack, a.space, a.budget, a.settings);
    });
    return both;
  };
  apps::add_evaluation<Results>(
      folder, fresh, from_json, to_json, [](const Results& a, const Results& b) { return alike(a, b); },
      unite);
}

std::vector<CorruptionSummary> summarise(const Results& results) {
  const bool imagenet = has_imagenet_classes(results);
  std::vector<CorruptionSummary> all;
  for (const std::string& name : data::corruption_names()) {
    CorruptionSummary s{.name = name, .error = {}, .ce = {}};
    for (const auto& c : results.corrupted) {
      if (c.name != name) continue;
      ++s.severities;
      s.top1 += c.top1;
      s.top5 += c.top5;
    }
    if (s.severities == 0) continue;
    s.top1 /= s.severities;
    s.top5 /= s.severities;
    if (s.severities == 5) s.error = 1 - s.top1;
    if (s.error && imagenet) s.ce = *s.error / data::alexnet_error(name);
    all.push_back(std::move(s));
  }
  return all;
}

std::optional<double> mean_corrupted_top1(const Results& results) {
  const auto all = summarise(results);
  double sum = 0;
  for (const CorruptionSummary& s : all) sum += s.top1;
  return all.empty() ? std::nullopt : std::optional(sum / double(all.size()));
}

std::optional<MeanCorruptionError> mean_corruption_error(const Results& results) {
  const auto all = summarise(results);
  if (all.size() != data::corruption_names().size()) return std::nullopt;
  MeanCorruptionError mean{.relative = has_imagenet_classes(results)};
  for (const CorruptionSummary& s : all) {
    if (!s.error) return std::nullopt;
    mean.value += (mean.relative ? *s.ce : *s.error) / double(all.size());
  }
  return mean;
}

}  // namespace pursuit::classify
