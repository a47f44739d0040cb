#pragma once
#include <vector>

#include "data/image.h"

namespace pursuit::data {

// A float image, 0 black and 1 white, stored by planes: values is [channels, height, width].
struct FloatImage {
  int width = 0, height = 0, channels = 1;
  std::vector<float> values;

  FloatImage(int w, int h, int c)
      : width(w), height(h), channels(c), values(size_t(w) * size_t(h) * size_t(c)) {}
  size_t plane_size() const { return size_t(width) * size_t(height); }
  float* row(int c, int y) { return &values[size_t(c) * plane_size() + size_t(y) * size_t(width)]; }
  const float* row(int c, int y) const {
    return &values[size_t(c) * plane_size() + size_t(y) * size_t(width)];
  }
};

FloatImage to_float(const Image& image);
// Clips to 0..1 and truncates to 8 bits, as NumPy's uint8 does.
Image to_image(const FloatImage& image);

// Pixels beyond the edge: the last pixel (clamp), the image mirrored about the last pixel (mirror), or about
// the edge, which repeats the last pixel (reflect).
enum class Border { clamp, mirror, reflect };
int border_index(int i, int size, Border border);

// Convolution with a Gaussian cut at `truncate` standard deviations. Any sigma works: a kernel wider than the
// image is folded back at the border. A sigma too small to reach a neighbour changes nothing.
FloatImage gaussian_blur(const FloatImage& image, double sigma, double truncate, Border border);

// out(x, y) = sum of weight * in(x + dx, y + dy)
struct Tap {
  int dx, dy;
  float weight;
};
FloatImage convolve(const FloatImage& image, const std::vector<Tap>& taps, Border border);

// A disk of the given radius in pixels, its rim smoothed by a Gaussian of `rim` pixels. Each pixel is
// weighted by the fraction of its points x points that lie in the disk. Sums to 1, but to 1.01 for a radius
// of 8 or more, where the smoothing mirrors at the edge of its square.
std::vector<Tap> disk_taps(double radius, double rim, int points);

// One-sided Gaussian weights along a line: `radius` is half the length of the trail, the angle is in degrees.
// Sums to 1.
std::vector<Tap> motion_taps(double radius, double sigma, double degrees);

// Magnifies the centre of the image by a factor of at least 1, bilinear, same size. As in scipy.ndimage.zoom,
// the first and last pixel kept become the first and last of the result.
FloatImage clipped_zoom(const FloatImage& image, double factor);

// The bilinear value of every channel at (x, y), pixel centres at integers.
void sample_bilinear(const FloatImage& image, float x, float y, Border border, float* out);

}  // namespace pursuit::data
