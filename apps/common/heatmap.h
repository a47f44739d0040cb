#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "data/image.h"

namespace pursuit::apps {

// A perceptual colour map from black over purple and orange to light yellow (after matplotlib's inferno, nine
// anchors, linear in between). `value` is clamped to [0, 1].
std::array<uint8_t, 3> heat_color(float value);

// Lays an attention map over a picture (RGB or grey; the result is RGB). `map` holds [grid_h, grid_w] finite
// values in row order; it is scaled so that its smallest value is 0 and its largest 1 (all equal: 0),
// upsampled bilinearly (pixel centres at +0.5), coloured, and mixed in with weight `opacity`.
data::Image blend_heatmap(const data::Image& rgb, const std::vector<float>& map, int grid_h, int grid_w,
                          float opacity = 0.6f);

}  // namespace pursuit::apps
