#include "data/augment.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "data/colour.h"
#include "data/kernels.h"
#include "engine/base/error.h"

namespace pursuit::data {
namespace {

constexpr int kTries = 10;

double log_uniform(Random& random, double low, double high) {
  return std::exp(random.uniform(std::log(low), std::log(high)));
}

int round_side(double area, double ratio) { return std::max(1, int(std::lround(std::sqrt(area * ratio)))); }

}  // namespace

Box draw_crop(int width, int height, Random& random, const RandomResizedCrop& options) {
  for (int i = 0; i < kTries; ++i) {
    const double area = random.uniform(options.scale_min, options.scale_max) * width * height;
    const double ratio = log_uniform(random, options.ratio_min, options.ratio_max);
    const int w = round_side(area, ratio), h = round_side(area, 1 / ratio);
    if (w > width || h > height) continue;
    const int y = int(random.below(height - h + 1)), x = int(random.below(width - w + 1));
    return {x, y, w, h};
  }
  const double ratio = std::clamp(double(width) / height, options.ratio_min, options.ratio_max);
  const int w = std::min(width, std::max(1, int(std::lround(height * ratio))));
  const int h = std::min(height, std::max(1, int(std::lround(width / ratio))));
  return {(width - w) / 2, (height - h) / 2, w, h};
}

Image random_resized_crop(const Image& image, int size, Random& random, const RandomResizedCrop& options) {
  const Box box = draw_crop(image.width, image.height, random, options);
  return resized_crop(image, box.x, box.y, box.width, box.height, size, size, options.filter);
}

Image random_padded_crop(const Image& image, int size, int padding, Random& random) {
  const int spare_x = image.width + 2 * padding - size, spare_y = image.height + 2 * padding - size;
  if (spare_x < 0 || spare_y < 0)
    fail("random_padded_crop", "got a picture of " + std::to_string(image.width) + " x " +
                                   std::to_string(image.height) + " with padding " + std::to_string(padding) +
                                   ", need at least " + std::to_string(size) + " x " + std::to_string(size));
  const int y = int(random.below(spare_y + 1)), x = int(random.below(spare_x + 1));
  return crop(image, x - padding, y - padding, size, size);
}

Image random_flip(Image image, Random& random, double probability) {
  return random.flip(probability) ? flip_horizontal(image) : image;
}

Image colour_jitter(const Image& image, Random& random, const ColourJitter& options) {
  struct Step {
    Image (*adjust)(const Image&, double);
    double strength;
  };
  std::array<Step, 3> steps{{{adjust_brightness, options.brightness},
                             {adjust_contrast, options.contrast},
                             {adjust_saturation, options.saturation}}};
  std::swap(steps[2], steps[size_t(random.below(3))]);
  std::swap(steps[1], steps[size_t(random.below(2))]);
  Image out = image;
  for (const Step& step : steps)
    if (step.strength > 0)
      out = step.adjust(out, random.uniform(std::max(0.0, 1 - step.strength), 1 + step.strength));
  return out;
}

void to_planes(const Image& image, std::span<uint8_t> chw) {
  const size_t plane = size_t(image.width) * size_t(image.height), channels = size_t(image.channels);
  if (image.pixels.size() != plane * channels || chw.size() != plane * channels)
    fail("to_planes", "got a picture of " + std::to_string(image.width) + " x " +
                          std::to_string(image.height) + " x " + std::to_string(image.channels) + " with " +
                          std::to_string(image.pixels.size()) + " values, need the " +
                          std::to_string(chw.size()) + " that the model takes");
  if (channels == 3)
    picture_kernels().planes(image.pixels.data(), plane, chw.data());
  else
    std::copy(image.pixels.begin(), image.pixels.end(), chw.begin());
}

Box draw_erasing(int width, int height, Random& random, const RandomErasing& options) {
  if (!random.flip(options.probability)) return {};
  for (int i = 0; i < kTries; ++i) {
    const double area = random.uniform(options.area_min, options.area_max) * width * height;
    const double ratio = log_uniform(random, options.ratio_min, options.ratio_max);
    const int h = round_side(area, ratio), w = round_side(area, 1 / ratio);
    if (w >= width || h >= height) continue;
    const int top = int(random.below(height - h + 1)), left = int(random.below(width - w + 1));
    return {left, top, w, h};
  }
  return {};
}

}  // namespace pursuit::data
