#pragma once
#include <string>
#include <vector>

#include "data/affine.h"
#include "engine/base/random.h"

namespace pursuit::data {

// RandAugment (Cubuk et al., 2020) with timm's increasing operation set; the defaults are DeiT's
// `rand-m9-mstd0.5-inc1`.
struct RandAugment {
  int operations = 2;               // drawn with replacement, applied in sequence
  double probability = 0.5;         // that a drawn operation is applied
  double magnitude = 9;             // 0 to 10
  double magnitude_std = 0.5;       // normal noise on the magnitude, clipped to 0..10
  Colour fill = {124, 116, 104};    // ImageNet's mean, where an operation uncovers an area
  Filter filter = Filter::bicubic;  // of the geometric operations, as timm's training interpolation
};

Image rand_augment(const Image& image, Random& random, const RandAugment& options = {});

// The names of the 15 operations, and applying one with a given magnitude; the sign is drawn.
const std::vector<std::string>& rand_augment_names();
Image apply_augmentation(const Image& image, const std::string& name, double magnitude, Filter filter,
                         Colour fill, Random& random);

}  // namespace pursuit::data
