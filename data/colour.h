#pragma once
#include "data/image.h"

namespace pursuit::data {

// Point operations on 8-bit images, rounded as in Pillow's ImageOps and ImageEnhance.

// first + factor * (second - first), clipped; factor may lie outside [0, 1].
Image blend(const Image& first, const Image& second, double factor);

// A factor of 1 is the identity; 0 gives black, mid grey, a grey image and a smoothed one, respectively.
Image adjust_brightness(const Image& image, double factor);
Image adjust_contrast(const Image& image, double factor);  // about the rounded mean luma
Image adjust_saturation(const Image& image, double factor);
Image adjust_sharpness(const Image& image, double factor);

// In HSV: rotates the hue by degrees, multiplies the saturation by a factor of at least 0 (cut at 1), keeps
// the value.
Image adjust_hsv(Image image, double degrees, double saturation);

Image auto_contrast(const Image& image);  // stretches each channel to 0..255
Image equalize(const Image& image);       // flattens each channel's histogram
Image invert(const Image& image);
Image posterize(const Image& image, int bits);               // keeps the upper bits, 0 to 8
Image solarize(const Image& image, int threshold);           // inverts values at or above the threshold
Image solarize_add(const Image& image, int add, int below);  // adds to the values under `below`

}  // namespace pursuit::data
