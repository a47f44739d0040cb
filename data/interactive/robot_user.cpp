#include "data/interactive/robot_user.h"

#include <algorithm>
#include <string>
#include <utility>

#include "data/interactive/distance.h"
#include "data/label_key.h"
#include "engine/base/error.h"

namespace pursuit::data {

namespace {

void check_sizes(const Image& object, const Image& prediction) {
  if (object.channels != 1 || prediction.channels != 1 || object.width != prediction.width ||
      object.height != prediction.height)
    fail("clicks", "the masks differ in size or have several channels");
}

// Pixels that are `object_is` in the object and the opposite in the prediction.
struct Errors {
  std::vector<int64_t> depths;  // squared distances; 0: no such pixel, or clicked before
  int64_t deepest = 0;
};
Errors errors_of(const Image& object, const Image& prediction, uint8_t object_is,
                 const std::vector<Click>& before) {
  Image errors(object.width, object.height, 1);
  for (size_t i = 0; i < errors.pixels.size(); ++i)
    errors.pixels[i] = object.pixels[i] == object_is && bool(prediction.pixels[i]) != bool(object_is);
  std::vector<int64_t> depths = squared_distances(errors);
  for (const Click& c : before) depths[size_t(c.y) * size_t(object.width) + size_t(c.x)] = 0;
  const int64_t deepest = depths.empty() ? 0 : *std::max_element(depths.begin(), depths.end());
  return {std::move(depths), deepest};
}

// The first of the deepest ones, or a random one that is more than half as deep.
size_t choose(const Errors& errors, Random* random) {
  const auto begin = errors.depths.begin();
  if (!random) return size_t(std::find(begin, errors.depths.end(), errors.deepest) - begin);
  const auto is_deep = [&](int64_t depth) { return 4 * depth > errors.deepest; };
  int64_t number = random->below(std::count_if(begin, errors.depths.end(), is_deep));
  return size_t(std::find_if(begin, errors.depths.end(),
                             [&](int64_t depth) { return is_deep(depth) && number-- == 0; }) -
                begin);
}

}  // namespace

std::optional<Click> next_click(const Image& object, const Image& prediction,
                                const std::vector<Click>& before, Random* random) {
  check_sizes(object, prediction);
  for (const Click& c : before)
    if (c.x < 0 || c.y < 0 || c.x >= object.width || c.y >= object.height)
      fail("clicks", "a click at (" + std::to_string(c.x) + ", " + std::to_string(c.y) +
                         ") is outside of the picture of " + std::to_string(object.width) + " x " +
                         std::to_string(object.height));
  const Errors missed = errors_of(object, prediction, 1, before),
               wrong = errors_of(object, prediction, 0, before);
  const bool positive = missed.deepest > wrong.deepest;
  const Errors& chosen = positive ? missed : wrong;
  if (chosen.deepest == 0) return {};
  const size_t at = choose(chosen, random);
  return Click{int(at % size_t(object.width)), int(at / size_t(object.width)), positive};
}

double intersection_over_union(const Image& object, const Image& prediction) {
  check_sizes(object, prediction);
  int64_t both = 0, either = 0;
  for (size_t i = 0; i < object.pixels.size(); ++i) {
    if (object.pixels[i] == kIgnoredLabel) continue;
    const bool is = object.pixels[i], found = prediction.pixels[i];
    both += is && found;
    either += is || found;
  }
  return either == 0 ? 1 : double(both) / double(either);
}

ClickCount number_of_clicks(const std::vector<ClickCurve>& curves, double target) {
  if (curves.empty()) fail("clicks", "there are no objects to count clicks of");
  ClickCount count;
  for (const ClickCurve& curve : curves) {
    if (curve.size() != size_t(kMostClicks))
      fail("clicks",
           "a curve has " + std::to_string(curve.size()) + " clicks, need " + std::to_string(kMostClicks));
    const auto reached = std::find_if(curve.begin(), curve.end(), [&](double iou) { return iou >= target; });
    count.never += reached == curve.end();
    count.mean += double(std::min<int64_t>(reached - curve.begin() + 1, kMostClicks)) / double(curves.size());
  }
  return count;
}

}  // namespace pursuit::data
