#pragma once
#include <optional>
#include <vector>

#include "data/image.h"
#include "engine/base/random.h"

// Interactive segmentation without a person: a robot user clicks into the largest error, and counts how many
// clicks a mask needs. The protocol of RITM (Sofiiuk, Petrov & Konushin 2022) and f-BRS. Masks have one
// channel: 1 the object, 0 all else, kIgnoredLabel not counted.
namespace pursuit::data {

struct Click {
  int x = 0, y = 0;
  bool positive = true;  // into the object
};

constexpr int kMostClicks = 20;

// The next click for a prediction: where the nearest pixel that is no such error is farthest, among missed
// pixels (positive) or among wrongly found ones (negative; also if both are equally deep). Pixels outside the
// picture are no errors, and pixels clicked before are not clicked again. The first in raster order of equal
// depth. None where nothing is wrong. With `random`, as RITM trains, a random one of the pixels that are more
// than half as deep.
std::optional<Click> next_click(const Image& object, const Image& prediction,
                                const std::vector<Click>& before, Random* random = nullptr);

// |both| / |either| over pixels that are not ignored; 1 if both masks are empty.
double intersection_over_union(const Image& object, const Image& prediction);

// The IoU after every click of one object: iou[0] after the first.
using ClickCurve = std::vector<double>;

// Mean number of the first click after which the IoU is at least `target` (NoC), kMostClicks where it never
// is, and the number of objects that never reach it. Throws Error unless every curve has kMostClicks values.
struct ClickCount {
  double mean = 0;
  int64_t never = 0;
};
ClickCount number_of_clicks(const std::vector<ClickCurve>& curves, double target);

}  // namespace pursuit::data
