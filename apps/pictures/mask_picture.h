#pragma once
#include <string>
#include <vector>

#include "data/segmentation.h"

namespace pursuit::apps {

// Colours every pixel by its class; ignored pixels are black. Throws Error for a class without a colour.
data::Image colour_mask(const data::Image& labels, const std::vector<data::Rgb>& colours);

// Blends a mask over a picture of the same size; `opacity` is the mask's weight.
data::Image overlay(const data::Image& picture, const data::Image& mask, double opacity = 0.5);

// The classes in a label map and their shares of its non-ignored pixels, largest first.
struct ClassShare {
  size_t index;
  double share;
};
std::vector<ClassShare> class_shares(const data::Image& labels, int64_t classes);

// A legend with a line for each class in the label map; with `shares` also its share of the pixels.
data::Image legend(const data::Image& labels, const std::vector<std::string>& classes,
                   const std::vector<data::Rgb>& colours, bool shares = true);

}  // namespace pursuit::apps
