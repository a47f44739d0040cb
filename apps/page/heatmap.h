#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "data/image.h"

namespace pursuit::apps {

// A perceptual colour map from black over purple and orange to light yellow (after matplotlib's inferno, nine
// anchors, linear in between). `value` is clamped to [0, 1].
std::array<uint8_t, 3> heat_color(float value);

// Blends an attention map over a picture (RGB or grey; the result is RGB). `map` [grid_h, grid_w] has finite
// values. It is scaled to the range 0 to 1 (all equal: 0), upsampled bilinearly (pixel centres at +0.5),
// coloured, and blended with weight `opacity`.
data::Image blend_heatmap(const data::Image& rgb, const std::vector<float>& map, int grid_h, int grid_w,
                          float opacity = 0.6f);

// Blends a map [grid, grid] over a picture. Small pictures are enlarged by a whole factor first, so that the
// shorter side has at least `side` pixels.
data::Image attention_overlay(const data::Image& picture, const std::vector<float>& map, int grid,
                              int side = 224);
// The picture and, to its right, the overlay; nothing there for an empty map (a model without attention).
data::Image attention_pair(const data::Image& picture, const std::vector<float>& map, int grid,
                           int side = 224);

// Rows of pictures: in each the picture, then its overlays by the row's maps [grid_h, grid_w].
data::Image film_strip(const data::Image& picture, const std::vector<std::vector<std::vector<float>>>& rows,
                       int grid_h, int grid_w, int side = 112);

}  // namespace pursuit::apps
