#include "data/segmentation_augment.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "data/augment.h"
#include "data/colour.h"
#include "data/resize.h"
#include "engine/base/error.h"

namespace pursuit::data {
namespace {

constexpr int kTries = 10;

// The largest share of one class among the labelled pixels; 1 if there are none.
double largest_share(const Image& labels) {
  std::array<int64_t, 256> counts{};
  for (const uint8_t label : labels.pixels) ++counts[label];
  counts[kIgnoredLabel] = 0;
  const int64_t total = std::accumulate(counts.begin(), counts.end(), int64_t(0));
  return total ? double(*std::max_element(counts.begin(), counts.end())) / double(total) : 1;
}

Image scale_values(Image image, double factor, double shift) {
  std::array<uint8_t, 256> table;
  for (size_t v = 0; v < 256; ++v)
    table[v] = uint8_t(std::clamp(double(v) * factor + shift + 0.5, 0.0, 255.0));
  for (uint8_t& v : image.pixels) v = table[v];
  return image;
}

}  // namespace

Image photometric_distortion(const Image& image, Random& random) {
  const auto drawn = [&](double low, double high, double none) {
    return random.flip() ? random.uniform(low, high) : none;
  };
  const double brightness = drawn(-32, 32, 0);
  const bool contrast_first = random.flip();
  const double contrast = drawn(0.5, 1.5, 1), saturation = drawn(0.5, 1.5, 1), degrees = drawn(-36, 36, 0);
  Image out = scale_values(image, 1, brightness);
  if (contrast_first) out = scale_values(std::move(out), contrast, 0);
  if (saturation != 1 || degrees != 0) out = adjust_hsv(std::move(out), degrees, saturation);
  return contrast_first ? out : scale_values(std::move(out), contrast, 0);
}

SegmentationSample augment(const SegmentationSample& sample, const SegmentationAugment& options,
                           Random& random) {
  const int width = sample.image.width, height = sample.image.height;
  double factor = random.uniform(options.ratio_min, options.ratio_max);
  if (options.short_side > 0)
    factor *= std::min(double(options.long_side) / std::max(width, height),
                       double(options.short_side) / std::min(width, height));
  const int scaled_width = scaled_side(width, factor), scaled_height = scaled_side(height, factor);
  Box box{0, 0, std::min(scaled_width, options.crop_width), std::min(scaled_height, options.crop_height)};
  SegmentationSample out;
  out.index = sample.index;
  for (int i = 0; i <= kTries; ++i) {
    box.y = int(random.below(scaled_height - box.height + 1));
    box.x = int(random.below(scaled_width - box.width + 1));
    out.labels = resize_nearest(sample.labels, scaled_width, scaled_height, box);
    if (options.max_class_share >= 1 || largest_share(out.labels) < options.max_class_share) break;
  }
  out.image = resize(sample.image, scaled_width, scaled_height, box, Filter::bilinear);
  if (random.flip(options.flip)) {
    out.image = flip_horizontal(out.image);
    out.labels = flip_horizontal(out.labels);
  }
  if (options.photometric) out.image = photometric_distortion(out.image, random);
  return out;
}

std::array<uint8_t, 3> mean_colour(const std::vector<double>& mean) {
  std::array<uint8_t, 3> colour;
  for (size_t i = 0; i < 3; ++i) colour[i] = uint8_t(std::lround(255 * mean.at(i)));
  return colour;
}

void to_padded(const SegmentationSample& sample, const std::array<uint8_t, 3>& padding, int width, int height,
               std::span<uint8_t> chw, std::span<int64_t> labels) {
  const Image &image = sample.image, &map = sample.labels;
  if (image.width > width || image.height > height)
    fail("to_padded", "got a picture of " + std::to_string(image.width) + " x " +
                          std::to_string(image.height) + ", need at most " + std::to_string(width) + " x " +
                          std::to_string(height));
  if (image.channels != 3 || map.channels != 1 || map.width != image.width || map.height != image.height)
    fail("to_padded", "got a picture of " + std::to_string(image.channels) + " channels with labels of " +
                          std::to_string(map.width) + " x " + std::to_string(map.height) +
                          ", need 3 channels and labels of the picture's size");
  const size_t pixels = size_t(width) * size_t(height);
  if (chw.size() != 3 * pixels || labels.size() != pixels)
    fail("to_padded", "got room for " + std::to_string(chw.size()) + " values and " +
                          std::to_string(labels.size()) + " labels, need " + std::to_string(3 * pixels) +
                          " and " + std::to_string(pixels));
  for (size_t c = 0; c < 3; ++c) {
    uint8_t* plane = &chw[c * pixels];
    std::fill_n(plane, pixels, padding[c]);
    for (int y = 0; y < image.height; ++y)
      for (int x = 0; x < image.width; ++x) plane[int64_t(y) * width + x] = image.at(x, y)[c];
  }
  std::fill_n(labels.begin(), pixels, int64_t(kIgnoredLabel));
  for (int y = 0; y < image.height; ++y)
    std::copy_n(map.at(0, y), image.width, labels.begin() + int64_t(y) * width);
}

}  // namespace pursuit::data
