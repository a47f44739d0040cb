#include <algorithm>
#include <cmath>

#include "data/corruption_families.h"

namespace pursuit::data {

FloatImage defocus_blur(FloatImage image, const CorruptionSetting& setting) {
  constexpr struct { double radius, rim; } table[] = {{3, 0.1}, {4, 0.5}, {6, 0.5}, {8, 0.5}, {10, 0.5}};
  const auto [radius, rim] = table[setting.severity];
  // In a small picture the disk may be smaller than a pixel; then only its smoothed rim blurs.
  constexpr double least_rim = 0.4;
  const double width = setting.scale < 1 ? std::max(rim, least_rim) : rim;
  // The original code's disk has no antialiasing.
  const int points = setting.scale < 1 ? 8 : 1;
  return convolve(image, disk_taps(radius * setting.scale, width, points), Border::mirror);
}

FloatImage glass_blur(FloatImage image, const CorruptionSetting& setting) {
  constexpr struct {
    double sigma, shift;
    int rounds;
  } table[] = {{0.7, 1, 2}, {0.9, 2, 1}, {1.0, 2, 3}, {1.1, 3, 2}, {1.5, 4, 2}};
  const auto [sigma, shift, rounds] = table[setting.severity];
  constexpr double truncate = 4;
  FloatImage out = to_float(to_image(gaussian_blur(image, sigma * setting.scale, truncate, Border::clamp)));
  const int reach = std::max(1, int(std::lround(shift * setting.scale)));
  const double moved = std::min(1.0, shift * setting.scale / reach);
  // Each pixel is replaced by one that is up to `reach` to the left or above or `reach` - 1 to the right or
  // below. The original code means to swap the two pixels, but copies one.
  for (int round = 0; round < rounds; ++round)
    for (int y = out.height - reach; y > reach; --y)
      for (int x = out.width - reach; x > reach; --x) {
        if (moved < 1 && !setting.random.flip(moved)) continue;
        const int other_x = x - reach + int(setting.random.below(2 * reach));
        const int other_y = y - reach + int(setting.random.below(2 * reach));
        for (int c = 0; c < out.channels; ++c) out.row(c, y)[x] = out.row(c, other_y)[other_x];
      }
  return gaussian_blur(out, sigma * setting.scale, truncate, Border::clamp);
}

FloatImage motion_blur(FloatImage image, const CorruptionSetting& setting) {
  constexpr struct { double radius, sigma; } table[] = {{10, 3}, {15, 5}, {15, 8}, {15, 12}, {20, 15}};
  const auto [radius, sigma] = table[setting.severity];
  const double angle = setting.random.uniform(-45, 45);
  constexpr double least_sigma = 0.6;
  const double width = std::max(least_sigma, sigma * setting.scale);
  return convolve(image, motion_taps(radius * setting.scale, width, angle), Border::clamp);
}

FloatImage zoom_blur(FloatImage image, const CorruptionSetting& setting) {
  constexpr struct {
    int count;
    double step;
  } table[] = {{12, 0.01}, {16, 0.01}, {11, 0.02}, {13, 0.02}, {11, 0.03}};
  const auto [count, size] = table[setting.severity];
  const double step = 1 + size - 1;  // rounded as in numpy.arange(1, ...), since crop sizes depend on it
  FloatImage sum = image;
  for (int i = 0; i < count; ++i) {
    const FloatImage zoomed = clipped_zoom(image, 1 + i * step);
    for (size_t k = 0; k < sum.values.size(); ++k) sum.values[k] += zoomed.values[k];
  }
  for (float& v : sum.values) v /= float(count + 1);
  return sum;
}

}  // namespace pursuit::data
