#pragma once
#include "data/image.h"

namespace pursuit::data {

enum class Filter { box, bilinear, bicubic };  // bicubic is Keys' cubic with a = -0.5

// Resizes to width x height. When a side shrinks, the filter is widened by the reduction, so nothing aliases;
// results are those of Pillow's resize. Throws if a side is below 1.
Image resize(const Image& image, int width, int height, Filter filter);

// `part` of resize(image, width, height, filter), and none of the work for the rest. Throws if `part` is
// empty or reaches beyond width x height.
Image resize(const Image& image, int width, int height, const Box& part, Filter filter);

// Every pixel is the one its centre falls into: for label maps, whose values cannot be mixed. Throws
// likewise.
Image resize_nearest(const Image& image, int width, int height);
Image resize_nearest(const Image& image, int width, int height, const Box& part);

// Resizes so that the shorter side is `size`; the longer side is rounded down, as torchvision does.
Image resize_shorter(const Image& image, int size, Filter filter);

// The rectangle with its top left corner at (x, y). What lies outside the picture is black.
Image crop(const Image& image, int x, int y, int width, int height);

// The middle width x height pixels, with torchvision's rounding of odd margins.
Image center_crop(const Image& image, int width, int height);

// ImageNet's look at a picture: its shorter side resized to size * 256 / 224, then the size x size pixels in
// the middle.
Image imagenet_view(const Image& image, int size, Filter filter);

Image resized_crop(const Image& image, int x, int y, int width, int height, int new_width, int new_height,
                   Filter filter);

Image flip_horizontal(const Image& image);

}  // namespace pursuit::data
