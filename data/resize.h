#pragma once
#include "data/image.h"

namespace pursuit::data {

enum class Filter { box, bilinear, bicubic };  // bicubic is Keys' cubic with a = -0.5

// Resizes to width x height as Pillow's resize does. When a side shrinks, the filter is widened accordingly
// to avoid aliasing. Throws if a side is below 1.
Image resize(const Image& image, int width, int height, Filter filter);

// `part` of resize(image, width, height, filter), computing only that. Throws if `part` is empty or reaches
// beyond width x height.
Image resize(const Image& image, int width, int height, const Box& part, Filter filter);

// Nearest neighbour, for label maps, whose values cannot be interpolated. Throws if a side is below
// 1.
Image resize_nearest(const Image& image, int width, int height);
Image resize_nearest(const Image& image, int width, int height, const Box& part);

// side times factor, rounded, at least 1. Throws Error if that is no size of a picture.
int scaled_side(int64_t side, double factor);

// Resizes so that the shorter side is `size`; the longer side is rounded down, as torchvision does.
Image resize_shorter(const Image& image, int size, Filter filter);

// The rectangle with its top left corner at (x, y). Pixels outside the image are black.
Image crop(const Image& image, int x, int y, int width, int height);

// The box that `choose` names. Throws if it reaches beyond the image.
Image part_of(const Image& image, const ChoosePart& choose);

// The central width x height pixels, with torchvision's rounding of odd margins.
Image center_crop(const Image& image, int width, int height);

// ImageNet's evaluation crop: shorter side resized to size * 256 / 224, then the central size x size
// pixels.
Image imagenet_view(const Image& image, int size, Filter filter);

Image resized_crop(const Image& image, int x, int y, int width, int height, int new_width, int new_height,
                   Filter filter);

Image flip_horizontal(const Image& image);

}  // namespace pursuit::data
