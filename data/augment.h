#pragma once
#include <span>

#include "data/image.h"
#include "data/resize.h"
#include "engine/base/random.h"

namespace pursuit::data {

// A random part of the image resized to size x size (Szegedy et al., 2015), by timm's algorithm: ten attempts
// to draw an area and aspect ratio that fit, then the largest central part with an allowed ratio.
struct RandomResizedCrop {
  double scale_min = 0.08, scale_max = 1.0;         // of the image's area
  double ratio_min = 3.0 / 4, ratio_max = 4.0 / 3;  // width / height, log-uniform
  Filter filter = Filter::bicubic;
};
Box draw_crop(int width, int height, Random& random, const RandomResizedCrop& options = {});
Image random_resized_crop(const Image& image, int size, Random& random,
                          const RandomResizedCrop& options = {});

// A random size x size crop of the image padded with `padding` black pixels, as is usual for 28 x 28 and 32 x
// 32 images. Throws if the padded image is smaller than `size`.
Image random_padded_crop(const Image& image, int size, int padding, Random& random);

Image random_flip(Image image, Random& random, double probability = 0.5);

// Brightness, contrast and saturation in random order, each by a factor from U(1 - strength, 1 + strength).
struct ColourJitter {
  double brightness = 0.3, contrast = 0.3, saturation = 0.3;
};
Image colour_jitter(const Image& image, Random& random, const ColourJitter& options = {});

// Converts to planes: chw [channels, height, width]. Throws unless chw has the image's size.
void to_planes(const Image& image, std::span<uint8_t> chw);

// With a probability, replaces one box of an image by noise (Zhong et al., 2020), see normalise_images.
struct RandomErasing {
  double probability = 0.25;
  double area_min = 0.02, area_max = 1.0 / 3;     // of the image's area
  double ratio_min = 0.3, ratio_max = 1.0 / 0.3;  // height / width, log-uniform
};
// Empty if the image is not erased.
Box draw_erasing(int width, int height, Random& random, const RandomErasing& options = {});

}  // namespace pursuit::data
