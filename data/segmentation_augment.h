#pragma once
#include <array>
#include <span>
#include <vector>

#include "data/segmentation.h"
#include "engine/base/random.h"

namespace pursuit::data {

// The augmentation of MMSegmentation's training pipelines, which Segmenter uses.
struct SegmentationAugment {
  int crop_width = 512, crop_height = 512;
  // The image is first scaled, keeping its aspect ratio, to fit long_side x short_side times a random ratio.
  // With short_side 0 the ratio is relative to the image's own size.
  int short_side = 512, long_side = 2048;
  double ratio_min = 0.5, ratio_max = 2;
  // A crop is redrawn, up to ten times, while one class exceeds this share of its counted pixels.
  double max_class_share = 0.75;
  double flip = 0.5;  // probability
  bool photometric = true;
};

// Scales (labels by nearest neighbour), crops, flips and distorts colours, in this order. The result is at
// most crop_width x crop_height.
SegmentationSample augment(const SegmentationSample& sample, const SegmentationAugment& options,
                           Random& random);

// Brightness +-32, contrast, saturation (both by 0.5 to 1.5) and hue (+-36 degrees), each with probability
// 1/2, contrast either before or after the other colour steps.
Image photometric_distortion(const Image& image, Random& random);

// The colour that normalisation by a mean of [0, 1] maps to nearly 0, for padding.
std::array<uint8_t, 3> mean_colour(const std::vector<double>& mean);

// Writes the image to chw [3, height, width] and the labels to `labels` [height, width], padded on the right
// and below with `padding` and kIgnoredLabel. Throws if the image is larger than width x height or not RGB,
// or if the sizes of its labels, chw or `labels` do not match.
void to_padded(const SegmentationSample& sample, const std::array<uint8_t, 3>& padding, int width, int height,
               std::span<uint8_t> chw, std::span<int64_t> labels);

}  // namespace pursuit::data
