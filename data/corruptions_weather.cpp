#include <algorithm>
#include <bit>
#include <cmath>

#include "data/corruption_families.h"
#include "data/resize.h"
#include "engine/base/error.h"

namespace pursuit::data {
namespace {

float luma(const FloatImage& image, size_t i) {
  if (image.channels == 1) return image.values[i];
  const size_t plane = image.plane_size();
  return 0.299f * image.values[i] + 0.587f * image.values[plane + i] + 0.114f * image.values[2 * plane + i];
}

// Random clouds in 0..1 on a size x size torus by the diamond-square algorithm (Fournier, Fussell &
// Carpenter, 1982): midpoints of ever smaller squares get the mean of four neighbours and noise that shrinks
// by decay^2 per octave. size is a power of two.
std::vector<float> plasma(int size, double decay, Random& random) {
  std::vector<float> map(size_t(size) * size_t(size));
  const auto at = [&](int x, int y) -> float& {
    return map[size_t(y & (size - 1)) * size_t(size) + size_t(x & (size - 1))];
  };
  double noise = 1;
  const auto midpoint = [&](float a, float b, float c, float d) {
    return (a + b + c + d) / 4 + float(noise * random.uniform(-1, 1));
  };
  for (int step = size; step > 1; step /= 2, noise /= decay * decay) {
    const int half = step / 2;
    for (int y = half; y < size; y += step)
      for (int x = half; x < size; x += step)
        at(x, y) = midpoint(at(x - half, y - half), at(x + half, y - half), at(x - half, y + half),
                            at(x + half, y + half));
    for (int y = 0; y < size; y += half)
      for (int x = (y / half) % 2 == 0 ? half : 0; x < size; x += step)
        at(x, y) = midpoint(at(x - half, y), at(x + half, y), at(x, y - half), at(x, y + half));
  }
  const auto [low, high] = std::minmax_element(map.begin(), map.end());
  const float least = *low, range = std::max(*high - *low, 1e-12f);
  for (float& v : map) v = (v - least) / range;
  return map;
}

}  // namespace

FloatImage snow(FloatImage image, const CorruptionSetting& setting) {
  constexpr struct {
    double mean, sigma, zoom, threshold, trail_radius, trail_sigma, keep;
  } table[] = {{0.1, 0.3, 3, 0.5, 10, 4, 0.8},
               {0.2, 0.3, 2, 0.5, 12, 4, 0.7},
               {0.55, 0.3, 4, 0.9, 12, 8, 0.7},
               {0.55, 0.3, 4.5, 0.85, 12, 8, 0.65},
               {0.55, 0.3, 2.5, 0.85, 12, 12, 0.55}};
  const auto& p = table[setting.severity];
  // Bilinear magnification reduces the noise's standard deviation to 2/3. If flakes would be smaller than a
  // pixel, nothing is magnified and the deviation is reduced instead, so that flakes cover the same area.
  const double zoom = std::max(1.0, p.zoom * setting.scale), sigma = zoom > 1 ? p.sigma : p.sigma * 2 / 3;
  FloatImage flakes(image.width, image.height, 1);
  for (float& v : flakes.values) v = float(p.mean + sigma * setting.random.normal());
  flakes = clipped_zoom(flakes, zoom);
  for (float& v : flakes.values) v = v < float(p.threshold) ? 0.0f : v;
  const double angle = setting.random.uniform(-135, -45);
  const double trail = std::max(1.0, p.trail_sigma * setting.scale);
  flakes = convolve(to_float(to_image(flakes)), motion_taps(p.trail_radius * setting.scale, trail, angle),
                    Border::clamp);
  flakes = to_float(to_image(flakes));

  // Whitens the picture, then adds the layer of flakes twice, once rotated by 180 degrees.
  const size_t plane = image.plane_size();
  const float keep = float(p.keep);
  for (size_t i = 0; i < plane; ++i) {
    const float white = luma(image, i) * 1.5f + 0.5f, flake = flakes.values[i] + flakes.values[plane - 1 - i];
    for (size_t k = i; k < image.values.size(); k += plane) {
      float& v = image.values[k];
      v = keep * v + (1 - keep) * std::max(v, white) + flake;
    }
  }
  return image;
}

FloatImage frost(FloatImage image, const CorruptionSetting& setting) {
  constexpr struct {
    float picture, overlay;
  } table[] = {{1.0f, 0.4f}, {0.8f, 0.6f}, {0.7f, 0.7f}, {0.65f, 0.7f}, {0.6f, 0.75f}};
  const auto [picture, overlay] = table[setting.severity];
  if (setting.frost.empty()) fail("frost", "no overlays: got an empty list, need at least one picture");
  const Image& sheet = setting.frost[size_t(setting.random.below(int64_t(setting.frost.size())))];
  // The part of the overlay that a 224 x 224 picture would use, or the largest of that shape that fits.
  const double want_width = image.width / setting.scale, want_height = image.height / setting.scale;
  const double fit = std::min({1.0, sheet.width / want_width, sheet.height / want_height});
  const int width = std::clamp(int(std::lround(want_width * fit)), 1, sheet.width);
  const int height = std::clamp(int(std::lround(want_height * fit)), 1, sheet.height);
  const int x = int(setting.random.below(sheet.width - width + 1));
  const int y = int(setting.random.below(sheet.height - height + 1));
  const Image part = resized_crop(sheet, x, y, width, height, image.width, image.height, Filter::bilinear);
  const FloatImage ice = to_float(image.channels == 1 ? to_grey(part) : to_rgb(part));
  for (size_t i = 0; i < image.values.size(); ++i)
    image.values[i] = picture * image.values[i] + overlay * ice.values[i];
  return image;
}

FloatImage fog(FloatImage image, const CorruptionSetting& setting) {
  constexpr struct { double amount, decay; } table[] = {{1.5, 2}, {2, 2}, {2.5, 1.7}, {2.5, 1.5}, {3, 1.4}};
  const auto [amount, decay] = table[setting.severity];
  // The clouds are a torus, which repeats in larger pictures: its memory is by the square of its size.
  constexpr int largest = 4096;
  const int size = std::min(largest, int(std::bit_ceil(unsigned(std::max({image.width, image.height, 2})))));
  const std::vector<float> clouds = plasma(size, decay, setting.random);
  const float brightest = *std::max_element(image.values.begin(), image.values.end());
  const float dim = brightest / (brightest + float(amount));
  for (int c = 0; c < image.channels; ++c)
    for (int y = 0; y < image.height; ++y) {
      float* row = image.row(c, y);
      const float* cloud = &clouds[size_t(y % size) * size_t(size)];
      for (int x = 0; x < image.width; ++x) row[x] = (row[x] + float(amount) * cloud[x % size]) * dim;
    }
  return image;
}

// Adds to the value in HSV. Hue and saturation do not change, so the channels of a pixel keep their ratios; a
// black pixel has saturation 0 and becomes grey.
FloatImage brightness(FloatImage image, const CorruptionSetting& setting) {
  constexpr float table[] = {0.1f, 0.2f, 0.3f, 0.4f, 0.5f};
  const size_t plane = image.plane_size();
  for (size_t i = 0; i < plane; ++i) {
    float value = 0;
    for (size_t k = i; k < image.values.size(); k += plane) value = std::max(value, image.values[k]);
    const float brighter = std::min(1.0f, value + table[setting.severity]);
    for (size_t k = i; k < image.values.size(); k += plane)
      image.values[k] = value > 0 ? image.values[k] * (brighter / value) : brighter;
  }
  return image;
}

}  // namespace pursuit::data
