#include "apps/page/heatmap.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/base/error.h"

namespace pursuit::apps {
namespace {

struct Sample {
  int low, high;
  float weight;  // of `high`
};

// The position of pixel `i` of `size` on a grid of `cells`, centres at +0.5, clamped at the borders.
Sample sample_position(int i, int size, int cells) {
  const float position = (float(i) + 0.5f) * float(cells) / float(size) - 0.5f;
  const float clamped = std::clamp(position, 0.0f, float(cells - 1));
  const int low = static_cast<int>(clamped);
  return {low, std::min(low + 1, cells - 1), clamped - float(low)};
}

constexpr int gap = 8;  // white pixels between the two pictures

data::Image enlarge(const data::Image& image, int side) {
  const int shorter = std::min(image.width, image.height), factor = (side + shorter - 1) / shorter;
  data::Image out(image.width * factor, image.height * factor, image.channels);
  for (int y = 0; y < out.height; ++y)
    for (int x = 0; x < out.width; ++x)
      std::copy_n(image.at(x / factor, y / factor), image.channels, out.at(x, y));
  return out;
}

void paste(data::Image& onto, const data::Image& image, int left, int top = 0) {
  for (int y = 0; y < image.height; ++y)
    std::copy_n(image.at(0, y), size_t(image.width) * size_t(image.channels), onto.at(left, top + y));
}

}  // namespace

std::array<uint8_t, 3> heat_color(float value) {
  constexpr float anchors[9][3] = {{0, 0, 4},      {31, 12, 72},   {85, 15, 109},
                                   {136, 34, 106}, {186, 54, 85},  {227, 89, 51},
                                   {249, 140, 10}, {249, 201, 50}, {252, 255, 164}};
  const float position = std::isnan(value) ? 0.0f : std::clamp(value, 0.0f, 1.0f) * 8;
  const int low = std::min(static_cast<int>(position), 7);
  const float weight = position - float(low);
  std::array<uint8_t, 3> color;
  for (size_t c = 0; c < 3; ++c)
    color[c] =
        static_cast<uint8_t>(std::lround(anchors[low][c] * (1 - weight) + anchors[low + 1][c] * weight));
  return color;
}

data::Image blend_heatmap(const data::Image& rgb, const std::vector<float>& map, int grid_h, int grid_w,
                          float opacity) {
  if (grid_h < 1 || grid_w < 1 || map.size() != size_t(grid_h) * size_t(grid_w))
    fail("heat map",
         fmt::format("the map does not fit its grid: got {} values, need {} x {}, both at least 1",
                     map.size(), grid_h, grid_w));
  if ((rgb.channels != 1 && rgb.channels != 3) ||
      rgb.pixels.size() != size_t(rgb.width) * size_t(rgb.height) * size_t(rgb.channels))
    fail("heat map",
         fmt::format("the picture is not valid: got {} x {} x {} and {} bytes, need 1 or 3 channels",
                     rgb.width, rgb.height, rgb.channels, rgb.pixels.size()));
  if (!std::all_of(map.begin(), map.end(), [](float v) { return std::isfinite(v); }))
    fail("heat map", "the map holds values that are not finite; check the attention weights");

  const auto [smallest, largest] = std::minmax_element(map.begin(), map.end());
  const float low = *smallest, scale = *largest > low ? 1 / (*largest - low) : 0.0f;
  data::Image out(rgb.width, rgb.height, 3);
  for (int y = 0; y < rgb.height; ++y) {
    const Sample row = sample_position(y, rgb.height, grid_h);
    for (int x = 0; x < rgb.width; ++x) {
      const Sample column = sample_position(x, rgb.width, grid_w);
      const auto row_value = [&](int r) {
        const float* values = map.data() + size_t(r) * size_t(grid_w);
        return values[column.low] * (1 - column.weight) + values[column.high] * column.weight;
      };
      const float value = row_value(row.low) * (1 - row.weight) + row_value(row.high) * row.weight;
      const auto color = heat_color((value - low) * scale);
      for (int c = 0; c < 3; ++c) {
        const float picture = rgb.at(x, y)[rgb.channels == 3 ? c : 0];
        out.at(x, y)[c] =
            static_cast<uint8_t>(std::lround(picture * (1 - opacity) + float(color[size_t(c)]) * opacity));
      }
    }
  }
  return out;
}

data::Image attention_overlay(const data::Image& picture, const std::vector<float>& map, int grid, int side) {
  return blend_heatmap(data::to_rgb(enlarge(picture, side)), map, grid, grid);
}

data::Image attention_pair(const data::Image& picture, const std::vector<float>& map, int grid, int side) {
  const data::Image left = data::to_rgb(enlarge(picture, side));
  data::Image pair(2 * left.width + gap, left.height, 3);
  std::fill(pair.pixels.begin(), pair.pixels.end(), uint8_t(255));
  paste(pair, left, 0);
  if (!map.empty()) paste(pair, attention_overlay(picture, map, grid, side), left.width + gap);
  return pair;
}

data::Image film_strip(const data::Image& picture, const std::vector<std::vector<std::vector<float>>>& rows,
                       int grid_h, int grid_w, int side) {
  const data::Image frame = data::to_rgb(enlarge(picture, side));
  size_t frames = 1;
  for (const auto& row : rows) frames = std::max(frames, 1 + row.size());
  data::Image strip(int(frames) * (frame.width + gap) - gap, int(rows.size()) * (frame.height + gap) - gap,
                    3);
  std::fill(strip.pixels.begin(), strip.pixels.end(), uint8_t(255));
  for (size_t r = 0; r < rows.size(); ++r) {
    const int top = int(r) * (frame.height + gap);
    paste(strip, frame, 0, top);
    for (size_t i = 0; i < rows[r].size(); ++i)
      paste(strip, blend_heatmap(frame, rows[r][i], grid_h, grid_w), int(i + 1) * (frame.width + gap), top);
  }
  return strip;
}

}  // namespace pursuit::apps
