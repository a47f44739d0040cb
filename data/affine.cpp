#include "data/affine.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/base/error.h"

namespace pursuit::data {
namespace {

// Interpolation weights of 2 (bilinear) or 4 (bicubic) neighbours at a fraction t in [0, 1).
template <int kTaps> std::array<double, kTaps> weights(double t) {
  if constexpr (kTaps == 2) {
    return {1 - t, t};
  } else {
    const double t2 = t * t, t3 = t2 * t;
    return {-t + 2 * t2 - t3, 1 - 2 * t2 + t3, t + t2 - t3, t3 - t2};
  }
}

template <int kTaps, int kChannels> void sample(const Image& image, double x, double y, uint8_t* to) {
  const double left = std::floor(x - 0.5), top = std::floor(y - 0.5);
  const auto wx = weights<kTaps>(x - 0.5 - left), wy = weights<kTaps>(y - 0.5 - top);
  const int x0 = int(left) - (kTaps / 2 - 1), y0 = int(top) - (kTaps / 2 - 1);
  double sum[kChannels] = {};
  for (int j = 0; j < kTaps; ++j) {
    const uint8_t* row = image.at(0, std::clamp(y0 + j, 0, image.height - 1));
    for (int i = 0; i < kTaps; ++i) {
      const uint8_t* p = row + std::clamp(x0 + i, 0, image.width - 1) * kChannels;
      const double w = wy[size_t(j)] * wx[size_t(i)];
      for (int c = 0; c < kChannels; ++c) sum[c] += w * p[c];
    }
  }
  for (int c = 0; c < kChannels; ++c) to[c] = uint8_t(std::clamp(sum[c], 0.0, 255.0));
}

template <int kTaps, int kChannels>
Image transform(const Image& image, const std::array<double, 6>& m, Colour fill) {
  Image out(image.width, image.height, kChannels);
  uint8_t* to = out.pixels.data();
  for (int y = 0; y < out.height; ++y)
    for (int x = 0; x < out.width; ++x, to += kChannels) {
      const double px = m[0] * (x + 0.5) + m[1] * (y + 0.5) + m[2],
                   py = m[3] * (x + 0.5) + m[4] * (y + 0.5) + m[5];
      if (px >= 0 && px < image.width && py >= 0 && py < image.height)
        sample<kTaps, kChannels>(image, px, py, to);
      else
        std::copy_n(fill.begin(), kChannels, to);
    }
  return out;
}

}  // namespace

Image affine(const Image& image, const std::array<double, 6>& m, Filter filter, Colour fill) {
  if (filter == Filter::box) fail("affine", "filter: got box, need bilinear or bicubic");
  const bool cubic = filter == Filter::bicubic;
  if (image.channels == 3) return cubic ? transform<4, 3>(image, m, fill) : transform<2, 3>(image, m, fill);
  return cubic ? transform<4, 1>(image, m, fill) : transform<2, 1>(image, m, fill);
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
