#include "apps/segment/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "data/corruptions.h"

namespace pursuit::segment {

using nlohmann::ordered_json;

namespace {

ordered_json to_json(const Scores& s) {
  return {{"pixel_accuracy", s.pixel_accuracy}, {"mean_accuracy", s.mean_accuracy}, {"mean_iou", s.mean_iou}};
}

Scores scores_from(const ordered_json& json) {
  return {json.at("pixel_accuracy"), json.at("mean_accuracy"), json.at("mean_iou")};
}

// In older files a corruption may have been on fewer pictures than the entry's: such ones become entries of
// their own, whose other scores are not known.
void from_json(const ordered_json& json, std::vector<Results>& all) {
  Results r;
  static_cast<apps::Conditions&>(r) = apps::conditions_from_json(json);
  json.at("views").get_to(r.views);
  r.seed = apps::member_of<uint64_t>(json, "seed");
  r.frost = json.value("frost", "");
  r.scores = {-1, -1, -1};
  const Results none = r;
  std::map<int64_t, Results> fewer;  // by the number of pictures
  for (const ordered_json& c : json.at("corrupted")) {
    const auto count = apps::member_of<int64_t>(c, "count");
    Results& of = count == r.count ? r : fewer.try_emplace(count, none).first->second;
    of.count = count;
    of.corrupted.push_back({c.at("name"), apps::member_of<int>(c, "severity"), scores_from(c.at("scores"))});
  }
  for (auto& [count, entry] : fewer) all.push_back(std::move(entry));
  r.scores = scores_from(json.at("scores"));
  for (const ordered_json& c : json.at("classes")) {
    r.classes.push_back(c.at("name"));
    r.iou.push_back(c.at("iou"));
    r.accuracy.push_back(c.at("accuracy"));
    r.pixels.push_back(apps::member_of<int64_t>(c, "pixels"));
  }
  all.push_back(std::move(r));
}

}  // namespace

Scores scores_of(const nn::ConfusionMatrix& matrix) {
  return {matrix.overall_accuracy(), matrix.mean_accuracy(), matrix.mean_iou()};
}

void Results::set_scores(const nn::ConfusionMatrix& matrix, int64_t pictures,
                         const std::vector<std::string>& names) {
  count = pictures;
  classes = names;
  scores = scores_of(matrix);
  iou = matrix.iou();
  accuracy = matrix.accuracy();
  pixels.clear();
  for (int64_t c = 0; c < matrix.classes(); ++c) {
    pixels.push_back(0);
    for (int64_t p = 0; p < matrix.classes(); ++p) pixels.back() += matrix.at(c, p);
  }
}

ordered_json to_json(const Results& r) {
  ordered_json json = apps::to_json(r);
  json.update({{"views", r.views}, {"seed", r.seed}, {"frost", r.frost}});
  json["scores"] = to_json(r.scores);
  json["classes"] = ordered_json::array();
  for (size_t c = 0; c < r.classes.size(); ++c)
    json["classes"].push_back({{"name", r.classes[c]},
                               {"iou", r.iou.at(c)},
                               {"accuracy", r.accuracy.at(c)},
                               {"pixels", r.pixels.at(c)}});
  json["corrupted"] = ordered_json::array();
  for (const Results::Corrupted& c : r.corrupted)
    json["corrupted"].push_back(
        {{"name", c.name}, {"severity", c.severity}, {"count", r.count}, {"scores", to_json(c.scores)}});
  return json;
}

std::vector<Results> read_results(const std::string& folder) {
  return apps::read_evaluations<Results>(folder, from_json);
}

bool alike(const Results& a, const Results& b) {
  return apps::alike(a, b) && std::tie(a.views, a.seed, a.frost) == std::tie(b.views, b.seed, b.frost);
}

void merge_results(const std::string& folder, const Results& fresh) {
  const auto unite = [](const Results& old, const Results& now) {
    Results both = now;
    both.corrupted = apps::united(old.corrupted, now.corrupted,
                                  [](const auto& c) { return std::pair(c.name, c.severity); });
    return both;
  };
  apps::add_evaluation<Results>(
      folder, fresh, from_json, to_json, [](const Results& a, const Results& b) { return alike(a, b); },
      unite);
}

std::optional<Scores> mean_corrupted(const std::vector<Results::Corrupted>& corrupted, int severity) {
  Scores sum;
  int count = 0;
  for (const Results::Corrupted& c : corrupted) {
    if (c.severity != severity) continue;
    sum.pixel_accuracy += c.scores.pixel_accuracy;
    sum.mean_accuracy += c.scores.mean_accuracy;
    sum.mean_iou += c.scores.mean_iou;
    ++count;
  }
  if (count == 0) return std::nullopt;
  return Scores{sum.pixel_accuracy / count, sum.mean_accuracy / count, sum.mean_iou / count};
}

std::vector<int> severities_of(const std::vector<Results::Corrupted>& corrupted) {
  std::set<int> all;
  for (const Results::Corrupted& c : corrupted) all.insert(c.severity);
  return {all.begin(), all.end()};
}

apps::Table class_table(const Results& r) {
  const int64_t labelled = std::accumulate(r.pixels.begin(), r.pixels.end(), int64_t(0));
  apps::Table table{{"class", "IoU", "accuracy", "share of pixels"}, {}};
  for (size_t c = 0; c < r.classes.size(); ++c)
    table.rows.push_back({r.classes[c], percent(r.iou[c]), percent(r.accuracy[c]),
                          labelled ? percent(double(r.pixels[c]) / double(labelled)) : "-"});
  return table;
}

apps::Table corruption_table(const Results& r) {
  const std::vector<int> severities = severities_of(r.corrupted);
  apps::Table table{{"corruption"}, {}};
  for (const int s : severities) table.columns.push_back(fmt::format("severity {}", s));
  for (const std::string& name : data::corruption_names()) {
    std::vector<std::string> row{name};
    for (const int s : severities) {
      const auto found = std::find_if(r.corrupted.begin(), r.corrupted.end(),
                                      [&](const auto& c) { return c.name == name && c.severity == s; });
      row.push_back(found == r.corrupted.end() ? "-" : percent(found->scores.mean_iou));
    }
    if (std::any_of(row.begin() + 1, row.end(), [](const std::string& cell) { return cell != "-"; }))
      table.rows.push_back(row);
  }
  const auto mean_row = [&](const char* name, double Scores::*score) {
    table.rows.push_back({name});
    for (const int s : severities)
      table.rows.back().push_back(percent((*mean_corrupted(r.corrupted, s)).*score));
  };
  mean_row("mean of mIoU", &Scores::mean_iou);
  mean_row("mean of mean accuracy", &Scores::mean_accuracy);
  mean_row("mean of pixel accuracy", &Scores::pixel_accuracy);
  return table;
}

std::string percent(double fraction) { return fraction < 0 ? "-" : fmt::format("{:.2f}", 100 * fraction); }

}  // namespace pursuit::segment
