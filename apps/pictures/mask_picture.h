#pragma once
#include <string>
#include <vector>

#include "data/segmentation.h"

namespace pursuit::apps {

// Every pixel in the colour of its class, ignored ones black. Throws Error on a class without a colour.
data::Image colour_mask(const data::Image& labels, const std::vector<data::Rgb>& colours);

// The picture with a mask of the same size over it; `opacity` is the mask's weight.
data::Image overlay(const data::Image& picture, const data::Image& mask, double opacity = 0.5);

// The classes that a label map holds and their share of its pixels that are not ignored, the largest first.
struct ClassShare {
  size_t index;
  double share;
};
std::vector<ClassShare> class_shares(const data::Image& labels, int64_t classes);

// What the colours of a mask mean: a line for each class that the label map holds, on
// request with its share.
data::Image legend(const data::Image& labels, const std::vector<std::string>& classes,
                   const std::vector<data::Rgb>& colours, bool shares = true);

}  // namespace pursuit::apps
