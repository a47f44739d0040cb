#pragma once
#include <array>
#include <span>

#include "data/segmentation.h"
#include "engine/base/random.h"

namespace pursuit::data {

// The augmentation of MMSegmentation's training pipelines, which Segmenter uses.
struct SegmentationAugment {
  int crop_width = 512, crop_height = 512;
  // The picture is first scaled, its ratio kept, to fit in long_side x short_side times a drawn ratio. With
  // short_side 0 the ratio is one to the picture's own size.
  int short_side = 512, long_side = 2048;
  double ratio_min = 0.5, ratio_max = 2;
  // A crop is drawn again, ten times at most, while one class makes up this share of its counted pixels.
  double max_class_share = 0.75;
  double flip = 0.5;  // probability
  bool photometric = true;
};

// Scaled (labels by their nearest pixel), cropped, flipped and with distorted colours, in this order. The
// result is at most crop_width x crop_height.
SegmentationSample augment(const SegmentationSample& sample, const SegmentationAugment& options,
                           Random& random);

// Brightness +-32, contrast, saturation (both by 0.5 to 1.5) and hue (+-36 degrees), each with probability
// 1/2, contrast either before or after the other colour steps.
Image photometric_distortion(const Image& image, Random& random);

// The picture into chw [3, height, width] and the labels into `labels` [height, width]. Right of and below
// the picture: `padding` and kIgnoredLabel. Throws if the picture is larger than width x height or not RGB,
// if its labels are of another size, or if chw or `labels` are.
void to_padded(const SegmentationSample& sample, const std::array<uint8_t, 3>& padding, int width, int height,
               std::span<uint8_t> chw, std::span<int64_t> labels);

}  // namespace pursuit::data
