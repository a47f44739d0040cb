#include "apps/classify/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <tuple>

#include "apps/run/run_folder.h"
#include "data/class_names.h"
#include "data/corruptions.h"
#include "engine/base/error.h"
#include "nn/attacks/registry.h"

namespace pursuit::classify {

using nlohmann::ordered_json;

namespace {

double number(const ordered_json& json, const char* key) {
  const ordered_json& value = json.at(key);
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

Results::Attacked attacked_from(const ordered_json& a) {
  return {a.at("attack"),
          a.at("space"),
          number(a, "budget"),
          a.value("settings", ""),
          number(a, "top1"),
          number(a, "top5"),
          number(a, "l2"),
          a.value("arguments", ""),
          a.contains("steps") ? apps::member_of<int64_t>(a, "steps") : 0,
          a.value("surrogate", ""),
          a.value("surrogate_attention", "")};
}

nn::Calibration calibration_from(const ordered_json& bins, int64_t pictures) {
  nn::Calibration c;
  if (bins.empty()) return c;
  c.bins.clear();
  for (const ordered_json& b : bins) {
    c.bins.push_back({apps::member_of<int64_t>(b, "count"), apps::member_of<int64_t>(b, "correct"),
                      apps::member_of<double>(b, "confidence")});
    const nn::Calibration::Bin& bin = c.bins.back();
    if (bin.correct < 0 || bin.count < bin.correct || pictures < bin.count || std::isnan(bin.confidence))
      fail("eval.json", "the bins of the calibration do not fit the number of pictures");
    pictures -= bin.count;
  }
  return c;
}

// The options of an attack but its steps.
std::string without_steps(const Results::Attacked& a) {
  const std::string flag = "--" + a.attack + "-steps ";
  const size_t at = a.arguments.find(flag);
  if (at == std::string::npos) return a.arguments;
  std::string left = a.arguments;
  left.erase(at, std::min(left.find(' ', at + flag.size()), left.size() - 1) + 1 - at);
  if (at == left.size() && at > 0) left.pop_back();
  return left;
}

// The same attack, but more steps in b.
bool more_steps(const Results::Attacked& a, const Results::Attacked& b) {
  return a.steps > 0 && b.steps > a.steps && a.attack == b.attack && a.space == b.space &&
         a.budget == b.budget && without_steps(a) == without_steps(b);
}

// ImageNet-1k's classes are WordNet ids such as "n01440764".
bool has_imagenet_classes(const Results& r) {
  return r.classes.size() == 1000 && r.left_out == 0 &&
         std::all_of(r.classes.begin(), r.classes.end(), data::is_wordnet_id);
}

}  // namespace

void write_scores(ordered_json& json, const Scores& s) {
  json["top1"] = s.top1;
  json["top5"] = s.top5;
  if (!std::isnan(s.loss)) json["loss"] = s.loss;
  if (!std::isnan(s.ece)) json["ece"] = s.ece;
}

void read_scores(const ordered_json& json, Scores& s) {
  s.top1 = number(json, "top1");
  s.top5 = number(json, "top5");
  if (json.contains("loss")) s.loss = number(json, "loss");
  if (json.contains("ece")) s.ece = number(json, "ece");
}

Scores scores_of(const Totals& totals) {
  return {totals.accuracy(), totals.accuracy5(), totals.loss, totals.calibration.error()};
}

void Results::set_scores(const Totals& totals, const std::vector<std::string>& model_classes,
                         const std::vector<int64_t>& only) {
  count = totals.count();
  scores = scores_of(totals);
  calibration = totals.calibration;
  set_classes(model_classes, only);
  confusion.clear();
  for (const int64_t row : only)
    for (const int64_t column : only) confusion.push_back(totals.confusion.at(row, column));
}

void Results::set_classes(const std::vector<std::string>& model_classes, const std::vector<int64_t>& only) {
  classes.clear();
  for (const int64_t c : only) classes.push_back(model_classes.at(size_t(c)));
  left_out = int64_t(model_classes.size() - only.size());
}

ordered_json to_json(const Results& r) {
  ordered_json json = apps::to_json(r);
  for (ordered_json& c : json["corrupted"]) c["clean_top1"] = r.scores.top1;
  json["classes"] = r.classes;
  json["left_out"] = r.left_out;
  json["confusion"] = r.confusion;
  json["calibration"] = ordered_json::array();
  if (r.calibration.count() > 0)
    for (const nn::Calibration::Bin& b : r.calibration.bins)
      json["calibration"].push_back(
          {{"count", b.count}, {"correct", b.correct}, {"confidence", b.confidence}});
  json["attacked"] = ordered_json::array();
  for (const auto& a : r.attacked)
    json["attacked"].push_back({{"attack", a.attack},
                                {"space", a.space},
                                {"budget", a.budget},
                                {"count", r.count},
                                {"settings", a.settings},
                                {"clean_top1", r.scores.top1},  // for readers of this entry alone
                                {"top1", a.top1},
                                {"top5", a.top5},
                                {"l2", a.l2},
                                {"arguments", a.arguments},
                                {"steps", a.steps},
                                {"surrogate", a.surrogate},
                                {"surrogate_attention", a.surrogate_attention}});
  for (const auto& o : r.outliers)
    json["outliers"].push_back({{"data", o.data},
                                {"fingerprint", o.fingerprint},
                                {"count", o.count},
                                {"inliers", o.inliers},
                                {"classes", o.classes},
                                {"aupr_probability", o.aupr_probability},
                                {"aupr_energy", o.aupr_energy},
                                {"arguments", o.arguments}});
  return json;
}

void from_json(const ordered_json& json, std::vector<Results>& all) {
  apps::PictureEntry<Results> read(json);
  Results& r = read.entry;
  for (const ordered_json& a : json.at("attacked")) read.of(a).attacked.push_back(attacked_from(a));
  for (const ordered_json& o : json.value("outliers", ordered_json::array()))
    r.outliers.push_back({o.at("data"), o.at("fingerprint"), apps::member_of<int64_t>(o, "count"),
                          apps::member_of<int64_t>(o, "inliers"), apps::member_of<int64_t>(o, "classes"),
                          apps::member_of<double>(o, "aupr_probability"),
                          apps::member_of<double>(o, "aupr_energy"), o.at("arguments")});
  json.at("classes").get_to(r.classes);
  if (json.contains("left_out")) r.left_out = apps::member_of<int64_t>(json, "left_out");
  r.confusion = apps::member_of<std::vector<int64_t>>(json, "confusion");
  if (!r.confusion.empty() && r.confusion.size() != r.classes.size() * r.classes.size())
    fail("eval.json", "the confusion matrix has " + std::to_string(r.confusion.size()) + " entries, need " +
                          std::to_string(r.classes.size()) + " squared");
  if (json.contains("calibration")) r.calibration = calibration_from(json.at("calibration"), r.count);
  for (auto& [count, entry] : read.fewer) {
    entry.classes = r.classes;
    entry.left_out = r.left_out;
    all.push_back(std::move(entry));
  }
  all.push_back(std::move(r));
}

Results unite(const Results& old, const Results& fresh) {
  Results both = fresh;
  apps::unite_corrupted(both, old);
  both.attacked = apps::united(old.attacked, fresh.attacked, [](const auto& a) {
    return std::tuple(a.attack, a.space, a.budget, a.settings, a.surrogate, a.arguments);
  });
  both.outliers = apps::united(old.outliers, fresh.outliers,
                               [](const auto& o) { return std::pair(o.data, o.fingerprint); });
  return both;
}

std::string data_name(const Config& config) {
  return config.data.empty() ? "synthetic" : apps::last_name(config.data);
}

std::string describe_data(const Config& config) {
  std::string text = data_name(config) + (config.test_split.empty() ? "" : " ") + config.test_split;
  if (config.data.empty() || config.test_split == "validation") return text;
  for (const std::string& file : config.test_files)
    text += (file == config.test_files[0] ? ": " : ", ") + file;
  return text;
}

const Results* main_evaluation(const std::vector<Results>& results, const Config& c) {
  return apps::main_evaluation(results, apps::evaluated_weights(c), [&](const Results& r) {
    const bool in_training = r.data == describe_data(c);
    const bool tested = c.validation > 0 && !in_training && r.data.starts_with(data_name(c) + " ");
    return std::tuple(tested, in_training, c.data_fingerprint.ends_with(" " + r.fingerprint));
  });
}

std::vector<CorruptionSummary> summarise(const Results& results) {
  const bool imagenet = has_imagenet_classes(results);
  std::vector<CorruptionSummary> all;
  for (const std::string& name : data::corruption_names()) {
    CorruptionSummary s{.name = name, .error = {}, .ce = {}};
    for (const auto& c : results.corrupted) {
      if (c.name != name) continue;
      ++s.severities;
      s.top1 += c.scores.top1;
      s.top5 += c.scores.top5;
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

std::vector<std::pair<double, double>> attack_curve(const Results& results, const std::string& attack,
                                                    const std::string& space) {
  using Points = std::vector<std::pair<double, double>>;
  std::map<std::string, Points> by_settings;
  for (const Results::Attacked& a : results.attacked)
    if (a.attack == attack && a.space == space && a.surrogate.empty())
      by_settings[a.settings].emplace_back(a.budget, 100 * a.top1);
  if (by_settings.empty()) return {};
  Points points = std::max_element(by_settings.begin(), by_settings.end(), [](const auto& a, const auto& b) {
                    return a.second.size() < b.second.size();
                  })->second;
  if (!std::isnan(results.scores.top1)) points.emplace_back(0, 100 * results.scores.top1);
  std::sort(points.begin(), points.end());
  return points;
}

std::vector<Swept> swept_attacks() {
  std::vector<Swept> all;
  for (const std::string& name : attacks::names())
    if (const auto norm = attacks::info_of(name).traits.norm) {
      std::string title = name;
      std::transform(title.begin(), title.end(), title.begin(),
                     [](unsigned char c) { return std::toupper(c); });
      all.push_back({name, title, *norm == attacks::Norm::linf ? "budget (1/255)" : "budget (l2)"});
    }
  return all;
}

std::vector<std::string> masking_notes(const Results& r) {
  constexpr double slack = 0.01, whole_range = 255;
  std::vector<Results::Attacked> attacked = r.attacked;
  std::erase_if(attacked, [](const Results::Attacked& a) { return !a.surrogate.empty(); });
  std::vector<std::string> notes;
  const auto find = [&](const std::string& attack, const Results::Attacked& like) {
    return std::find_if(attacked.begin(), attacked.end(), [&](const Results::Attacked& a) {
      return a.attack == attack && a.space == like.space && a.budget == like.budget;
    });
  };
  const auto number = [](double share) { return fmt::format("{:.1f} %", 100 * share); };
  for (const Results::Attacked& a : attacked) {
    for (const Results::Attacked& b : attacked)
      if (more_steps(a, b) && b.top1 > a.top1 + slack)
        notes.push_back(fmt::format(
            "the model may hide its gradient: at {} {} of {} steps leaves {}, of {} steps {}",
            budget_text(a.attack, a.budget), a.attack, a.steps, number(a.top1), b.steps, number(b.top1)));
    const bool l2 = a.attack.ends_with("-l2");
    if (a.attack.starts_with("apgd"))
      if (const auto s = find(l2 ? "square-l2" : "square", a);
          s != attacked.end() && s->top1 < a.top1 - slack)
        notes.push_back(
            fmt::format("the model may hide its gradient: at {} Square, which uses none, leaves {}, "
                        "{} leaves {}",
                        budget_text(a.attack, a.budget), number(s->top1), a.attack, number(a.top1)));
    const bool climbs = a.attack.starts_with("apgd") || a.attack == "pgd" || a.attack == "mim";
    if (climbs && !l2 && a.space == "pixel" && a.budget >= whole_range && a.top1 > slack)
      notes.push_back(
          fmt::format("the model may hide its gradient: {} with the whole range of pixels leaves {}",
                      a.attack, number(a.top1)));
  }
  return notes;
}

apps::Table outlier_table(const Results& r) {
  apps::Table table{
      {"outliers", "pictures", "of the data", "classes", "AUPR, probability", "AUPR, energy", "by chance"},
      {}};
  for (const Results::Outliers& o : r.outliers)
    table.rows.push_back({o.data, std::to_string(o.count), std::to_string(o.inliers),
                          std::to_string(o.classes), percent(o.aupr_probability), percent(o.aupr_energy),
                          percent(double(o.count) / double(o.count + o.inliers))});
  return table;
}

std::string percent(double fraction) {
  return std::isnan(fraction) ? "-" : fmt::format("{:.2f}%", 100 * fraction);
}

std::optional<attacks::Norm> norm_of(const std::string& attack) {
  const std::vector<std::string>& known = attacks::names();
  if (std::find(known.begin(), known.end(), attack) == known.end()) return std::nullopt;
  return attacks::info_of(attack).traits.norm;
}

std::string budget_text(const std::string& attack, double budget) {
  if (budget == 0) return "-";
  return fmt::format("{:g}", budget) + (norm_of(attack) == attacks::Norm::linf ? "/255" : "");
}

std::string attack_title(const Results::Attacked& a) {
  return a.attack + (a.surrogate.empty() ? "" : " by " + a.surrogate);
}

}  // namespace pursuit::classify
