#include "apps/segment/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

#include "apps/common/evaluations.h"
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

Results from_json(const ordered_json& json) {
  Results r;
  json.at("data").get_to(r.data);
  json.at("views").get_to(r.views);
  r.options = json.value("options", "");
  json.at("ema").get_to(r.ema);
  json.at("step").get_to(r.step);
  json.at("seed").get_to(r.seed);
  json.at("count").get_to(r.count);
  r.scores = scores_from(json.at("scores"));
  for (const ordered_json& c : json.at("classes")) {
    r.classes.push_back(c.at("name"));
    r.iou.push_back(c.at("iou"));
    r.accuracy.push_back(c.at("accuracy"));
    r.pixels.push_back(c.at("pixels"));
  }
  for (const ordered_json& c : json.at("corrupted"))
    r.corrupted.push_back({c.at("name"), c.at("severity"), c.at("count"), scores_from(c.at("scores"))});
  return r;
}

}  // namespace

Scores scores_of(const nn::ConfusionMatrix& matrix) {
  return {matrix.pixel_accuracy(), matrix.mean_accuracy(), matrix.mean_iou()};
}

void Results::set_scores(const nn::ConfusionMatrix& matrix, int64_t pictures) {
  count = pictures;
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
  ordered_json json = {{"data", r.data}, {"views", r.views}, {"options", r.options}, {"ema", r.ema},
                       {"step", r.step}, {"seed", r.seed},   {"count", r.count}};
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
        {{"name", c.name}, {"severity", c.severity}, {"count", c.count}, {"scores", to_json(c.scores)}});
  return json;
}

std::optional<Results> read_results(const std::string& folder) {
  std::vector<Results> all = apps::read_evaluations(folder, from_json);
  if (all.empty()) return std::nullopt;
  return std::move(all.back());
}

void merge_results(const std::string& folder, const Results& fresh) {
  const auto same = [](const Results& a, const Results& b) {
    return std::tie(a.data, a.views, a.ema) == std::tie(b.data, b.views, b.ema);
  };
  const auto unite = [](const Results& old, const Results& now) {
    Results both = old.count > now.count ? old : now;
    both.corrupted = apps::united(old.corrupted, now.corrupted,
                                  [](const auto& c) { return std::pair(c.name, c.severity); });
    return both;
  };
  apps::add_evaluation(folder, fresh, from_json, to_json, same, unite);
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
