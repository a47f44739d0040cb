#include "data/affine.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "data/kernels.h"
#include "engine/base/error.h"

namespace pursuit::data {
namespace {

constexpr int kBorder = 2;  // as far as a bicubic window at a pixel of the image reaches

// The image as [height, width, 4] with its border pixels repeated outwards.
template <int kChannels> std::vector<uint8_t> with_border(const Image& image) {
  const int width = image.width + 2 * kBorder, height = image.height + 2 * kBorder;
  std::vector<uint8_t> out(size_t(width) * size_t(height) * 4);
  uint8_t* to = out.data();
  for (int y = 0; y < height; ++y) {
    const uint8_t* from = image.at(0, std::clamp(y - kBorder, 0, image.height - 1));
    for (int x = 0; x < width; ++x, to += 4) {
      for (int c = 0; c < kChannels; ++c) to[c] = from[c];
      if (x >= kBorder && x + 1 < width - kBorder) from += kChannels;
    }
  }
  return out;
}

template <int kChannels> Image filled(int width, int height, Colour fill) {
  Image out(width, height, kChannels);
  for (size_t i = 0; i < out.pixels.size(); i += kChannels)
    for (size_t c = 0; c < kChannels; ++c) out.pixels[i + c] = fill[c];
  return out;
}

}  // namespace

Image affine(const Image& image, const std::array<double, 6>& m, Filter filter, Colour fill) {
  if (filter == Filter::box) fail("affine", "filter: got box, need bilinear or bicubic");
  if (image.pixels.empty()) return image;
  const bool rgb = image.channels == 3;
  const std::vector<uint8_t> bordered = rgb ? with_border<3>(image) : with_border<1>(image);
  Image out = (rgb ? filled<3> : filled<1>)(image.width, image.height, fill);
  AffineMap map;
  std::copy(m.begin(), m.end(), map.m);
  for (int y = 0; y < image.height; ++y)
    picture_kernels().affine_row(bordered.data(), kBorder, image.width, image.height, map,
                                 filter == Filter::bicubic ? 4 : 2, y, image.channels, out.at(0, y));
  return out;
}

Image rotate(const Image& image, double degrees, Filter filter, Colour fill) {
  const double a = degrees * std::numbers::pi / 180, c = std::cos(a), s = std::sin(a);
  const double cx = image.width / 2.0, cy = image.height / 2.0;
  return affine(image, {c, -s, cx - c * cx + s * cy, s, c, cy - s * cx - c * cy}, filter, fill);
}

Image shear_x(const Image& image, double factor, Filter filter, Colour fill) {
  return affine(image, {1, factor, 0, 0, 1, 0}, filter, fill);
}

Image shear_y(const Image& image, double factor, Filter filter, Colour fill) {
  return affine(image, {1, 0, 0, factor, 1, 0}, filter, fill);
}

Image translate(const Image& image, double dx, double dy, Filter filter, Colour fill) {
  return affine(image, {1, 0, dx, 0, 1, dy}, filter, fill);
}

}  // namespace pursuit::data
