#include "apps/segment/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <tuple>

#include "apps/segment/pipeline.h"
#include "apps/segment/predictor.h"

namespace pursuit::segment {

using nlohmann::ordered_json;

void write_scores(ordered_json& json, const Scores& s) {
  json["scores"] = {
      {"pixel_accuracy", s.pixel_accuracy}, {"mean_accuracy", s.mean_accuracy}, {"mean_iou", s.mean_iou}};
}

void read_scores(const ordered_json& json, Scores& s) {
  const ordered_json& scores = json.at("scores");
  s = {scores.at("pixel_accuracy"), scores.at("mean_accuracy"), scores.at("mean_iou")};
}

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
  json["views"] = r.views;
  json["classes"] = ordered_json::array();
  for (size_t c = 0; c < r.classes.size(); ++c)
    json["classes"].push_back({{"name", r.classes[c]},
                               {"iou", r.iou.at(c)},
                               {"accuracy", r.accuracy.at(c)},
                               {"pixels", r.pixels.at(c)}});
  for (const Results::Attacked& a : r.attacked) {
    ordered_json one = {
        {"attack", a.attack}, {"budget", a.budget}, {"settings", a.settings}, {"arguments", a.arguments}};
    write_scores(one, a.scores);
    json["attacked"].push_back(std::move(one));
  }
  return json;
}

void from_json(const ordered_json& json, std::vector<Results>& all) {
  apps::PictureEntry<Results> read(json);
  Results& r = read.entry;
  json.at("views").get_to(r.views);
  for (const ordered_json& c : json.at("classes")) {
    r.classes.push_back(c.at("name"));
    r.iou.push_back(c.at("iou"));
    r.accuracy.push_back(c.at("accuracy"));
    r.pixels.push_back(apps::member_of<int64_t>(c, "pixels"));
  }
  for (const ordered_json& a : json.value("attacked", ordered_json::array())) {
    r.attacked.push_back({a.at("attack"),
                          apps::member_of<double>(a, "budget"),
                          a.at("settings"),
                          {},
                          a.value("arguments", "")});
    read_scores(a, r.attacked.back().scores);
  }
  for (auto& [count, entry] : read.fewer) {
    entry.views = r.views;
    all.push_back(std::move(entry));
  }
  all.push_back(std::move(r));
}

bool alike(const Results& a, const Results& b) {
  return alike(static_cast<const apps::PictureResults<Scores>&>(a), b) && a.views == b.views;
}

Results unite(const Results& old, const Results& fresh) {
  Results both = fresh;
  apps::unite_corrupted(both, old);
  both.attacked = apps::united(old.attacked, fresh.attacked,
                               [](const auto& a) { return std::tuple(a.attack, a.budget, a.settings); });
  return both;
}

const Results* main_evaluation(const std::vector<Results>& results, const Config& c) {
  const std::string test = describe_data(c, data::Split::test), watched = describe_data(c, c.validation);
  const std::string views = describe(views_of(c));
  return apps::main_evaluation(results, apps::evaluated_weights(c), [&](const Results& r) {
    return std::tuple(r.data == test, r.data == watched, r.views == views);
  });
}

std::optional<Scores> mean_corrupted(const std::vector<apps::Corrupted<Scores>>& corrupted, int severity) {
  Scores sum{0, 0, 0};
  int count = 0;
  for (const apps::Corrupted<Scores>& c : corrupted) {
    if (c.severity != severity) continue;
    sum.pixel_accuracy += c.scores.pixel_accuracy;
    sum.mean_accuracy += c.scores.mean_accuracy;
    sum.mean_iou += c.scores.mean_iou;
    ++count;
  }
  if (count == 0) return std::nullopt;
  return Scores{sum.pixel_accuracy / count, sum.mean_accuracy / count, sum.mean_iou / count};
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
  apps::Table table =
      apps::corruption_table(r.corrupted, [](const Scores& s) { return percent(s.mean_iou); });
  const auto mean_row = [&](const char* name, double Scores::*score) {
    table.rows.push_back({name});
    for (const int s : severities_of(r.corrupted))
      table.rows.back().push_back(percent((*mean_corrupted(r.corrupted, s)).*score));
  };
  mean_row("mean of mIoU", &Scores::mean_iou);
  mean_row("mean of mean accuracy", &Scores::mean_accuracy);
  mean_row("mean of pixel accuracy", &Scores::pixel_accuracy);
  return table;
}

apps::Table attack_table(const Results& r) {
  apps::Table table{{"attack", "budget", "mIoU", "mean accuracy", "pixel accuracy", "how"}, {}};
  const auto add = [&](const std::string& attack, const std::string& budget, const Scores& s,
                       const std::string& how) {
    table.rows.push_back(
        {attack, budget, percent(s.mean_iou), percent(s.mean_accuracy), percent(s.pixel_accuracy), how});
  };
  add("none", "-", r.scores, "");
  for (const Results::Attacked& a : r.attacked)
    add(a.attack, fmt::format("{:g}/255", a.budget), a.scores, a.settings);
  return table;
}

std::string percent(double fraction) { return fraction < 0 ? "-" : fmt::format("{:.2f}", 100 * fraction); }

}  // namespace pursuit::segment
