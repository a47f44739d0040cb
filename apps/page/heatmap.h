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

// A map [grid, grid] over a picture, RGB; small pictures are enlarged first, so that a side has at least
// `side` pixels and every pixel stays a square.
data::Image attention_overlay(const data::Image& picture, const std::vector<float>& map, int grid,
                              int side = 224);
// The picture and, to its right, the overlay.
data::Image attention_pair(const data::Image& picture, const std::vector<float>& map, int grid,
                           int side = 224);

}  // namespace pursuit::apps
