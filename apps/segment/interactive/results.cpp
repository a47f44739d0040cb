#include "apps/segment/interactive/results.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <future>
#include <tuple>

#include "apps/terminal/signals.h"
#include "engine/base/streams.h"

namespace pursuit::segment::interactive {

using nlohmann::ordered_json;

namespace {

std::vector<std::string> parts_of(const std::string& answers) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin < answers.size();) {
    const size_t end = std::min(answers.find(", ", begin), answers.size());
    parts.push_back(answers.substr(begin, end - begin));
    begin = end + 2;
  }
  return parts;
}

}  // namespace

std::string changed_answers(const std::string& answers, const std::string& own) {
  const std::vector<std::string> known = parts_of(own);
  std::vector<std::string> changed = parts_of(answers);
  std::erase_if(changed, [&](const std::string& part) {
    return std::find(known.begin(), known.end(), part) != known.end();
  });
  return changed.empty() ? "the run's" : fmt::format("{}", fmt::join(changed, ", "));
}

void Results::set_curves(const std::vector<data::ClickCurve>& curves) {
  count = int64_t(curves.size());
  mean_iou.assign(size_t(data::kMostClicks), 0);
  for (const data::ClickCurve& curve : curves)
    for (size_t k = 0; k < mean_iou.size(); ++k) mean_iou[k] += curve.at(k) / double(count);
  reached.clear();
  for (const double target : targets) {
    const data::ClickCount clicks = data::number_of_clicks(curves, target);
    reached.push_back({target, clicks.mean, clicks.never});
  }
}

const Results::Target* Results::at(double iou) const {
  const auto found =
      std::find_if(reached.begin(), reached.end(), [&](const Target& target) { return target.iou == iou; });
  return found == reached.end() ? nullptr : &*found;
}

ordered_json to_json(const Results& r) {
  ordered_json json = apps::to_json(r);
  json["robot"] = r.robot;
  json["answers"] = r.answers;
  json["mean_iou"] = r.mean_iou;
  json["targets"] = ordered_json::array();
  for (const Results::Target& t : r.reached)
    json["targets"].push_back({{"iou", t.iou}, {"clicks", t.clicks}, {"never", t.never}});
  return json;
}

void from_json(const ordered_json& json, std::vector<Results>& all) {
  Results r;
  static_cast<apps::Conditions&>(r) = apps::conditions_from_json(json);
  json.at("robot").get_to(r.robot);
  json.at("answers").get_to(r.answers);
  for (const ordered_json& iou : json.at("mean_iou")) r.mean_iou.push_back(iou);
  if (r.mean_iou.size() != size_t(data::kMostClicks))
    fail("eval.json",
         fmt::format("'mean_iou' has {} numbers, need {}", r.mean_iou.size(), data::kMostClicks));
  for (const ordered_json& t : json.at("targets"))
    r.reached.push_back({apps::member_of<double>(t, "iou"), apps::member_of<double>(t, "clicks"),
                         apps::member_of<int64_t>(t, "never")});
  all.push_back(std::move(r));
}

bool alike(const Results& a, const Results& b) {
  return apps::alike(a, b) && std::tie(a.robot, a.answers) == std::tie(b.robot, b.answers);
}

apps::Table clicks_table(const Results& r) {
  apps::Table table{{"IoU", "clicks", "never reached"}, {}};
  for (const Results::Target& t : r.reached)
    table.rows.push_back({fmt::format("{:.0f} %", 100 * t.iou), fmt::format("{:.2f}", t.clicks),
                          fmt::format("{} of {}", t.never, r.count)});
  return table;
}

std::string describe(const Robot& robot) {
  return robot.random ? fmt::format("random, seed {}", robot.seed) : "deepest pixel";
}

Curves click_curves(const nn::InteractiveSegmenter& model, const Config& config,
                    const data::SegmentationDataset& data, const Robot& robot, const apps::Tick& tick,
                    const data::Share& share) {
  Curves curves{std::vector<data::ClickCurve>(size_t(data.size()))};
  std::future<data::SegmentationSample> next;
  for (int64_t i = share.first; i < data.size(); i += share.of) {
    if (apps::stop_requested()) return curves;
    const data::SegmentationSample sample = next.valid() ? next.get() : data.get(i);
    if (i + share.of < data.size())
      next = std::async(std::launch::async, [&data, j = i + share.of] { return data.get(j); });
    if (sample.index >= 0) {
      Random random(robot.seed, streams::robot.at(uint64_t(sample.index)));
      curves.of_objects[size_t(i)] = click_curve(ClickedPicture(model, config, sample.image), sample.labels,
                                                 data::kMostClicks, robot.random ? &random : nullptr);
    }
    if (tick) tick(i + 1);
  }
  curves.complete = true;
  return curves;
}

}  // namespace pursuit::segment::interactive
