#include <algorithm>
#include <cmath>

#include "data/corruption_families.h"
#include "data/resize.h"

namespace pursuit::data {
namespace {

// x' = m[0] x + m[1] y + m[2], y' = m[3] x + m[4] y + m[5]
struct Affine {
  double m[6];
};

struct Point {
  double x, y;
};

// The affine map from the three points `from` to `to`.
Affine affine_through(const Point (&from)[3], const Point (&to)[3]) {
  const double ax = from[1].x - from[0].x, ay = from[1].y - from[0].y;
  const double bx = from[2].x - from[0].x, by = from[2].y - from[0].y;
  const double det = ax * by - ay * bx, inverse = det != 0 ? 1 / det : 0;  // collinear points: as OpenCV
  const auto solve = [&](double t0, double t1, double t2, double* row) {
    row[0] = ((t1 - t0) * by - (t2 - t0) * ay) * inverse;
    row[1] = ((t2 - t0) * ax - (t1 - t0) * bx) * inverse;
    row[2] = t0 - row[0] * from[0].x - row[1] * from[0].y;
  };
  Affine map;
  solve(to[0].x, to[1].x, to[2].x, map.m);
  solve(to[0].y, to[1].y, to[2].y, map.m + 3);
  return map;
}

// The map from the distorted picture to the original: moves three corners of the central square, whose half
// side is a third of the picture, each by up to `jitter` pixels.
Affine jittered_affine(int width, int height, double jitter, Random& random) {
  const double cx = width / 2, cy = height / 2, q = std::max(1, std::min(width, height) / 3);
  const Point corners[3] = {{cx + q, cy + q}, {cx + q, cy - q}, {cx - q, cy - q}};
  Point shifted[3];
  for (int i = 0; i < 3; ++i) {
    shifted[i].x = corners[i].x + random.uniform(-jitter, jitter);
    shifted[i].y = corners[i].y + random.uniform(-jitter, jitter);
  }
  return affine_through(shifted, corners);
}

// Samples the image bilinearly at source(x, y) for every pixel.
template <class Source> FloatImage resampled(const FloatImage& image, Border border, const Source& source) {
  FloatImage out(image.width, image.height, image.channels);
  for (int y = 0; y < out.height; ++y)
    for (int x = 0; x < out.width; ++x) {
      const Point from = source(x, y);
      float value[3];
      sample_bilinear(image, float(from.x), float(from.y), border, value);
      for (int c = 0; c < out.channels; ++c) out.row(c, y)[x] = value[c];
    }
  return out;
}

FloatImage smooth_noise(int width, int height, double sigma, double amount, Random& random) {
  FloatImage noise(width, height, 1);
  for (float& v : noise.values) v = float(random.uniform(-1, 1));
  noise = gaussian_blur(noise, sigma, 3, Border::reflect);
  for (float& v : noise.values) v *= float(amount);
  return noise;
}

}  // namespace

// Reduces contrast around each channel's mean.
FloatImage contrast(FloatImage image, const CorruptionSetting& setting) {
  constexpr float table[] = {0.4f, 0.3f, 0.2f, 0.1f, 0.05f};
  const float factor = table[setting.severity];
  const size_t plane = image.plane_size();
  for (int c = 0; c < image.channels; ++c) {
    float* values = image.row(c, 0);
    double total = 0;
    for (size_t i = 0; i < plane; ++i) total += values[i];
    const float mean = float(total / double(plane));
    for (size_t i = 0; i < plane; ++i) values[i] = (values[i] - mean) * factor + mean;
  }
  return image;
}

FloatImage elastic_transform(FloatImage image, const CorruptionSetting& setting) {
  constexpr struct {
    double alpha, sigma, jitter;
  } table[] = {
      {488, 170.8, 24.4}, {488, 19.52, 48.8}, {12.2, 2.44, 4.88}, {17.08, 2.44, 4.88}, {29.28, 2.44, 4.88}};
  const auto& p = table[setting.severity];
  // White noise blurred with sigma has a standard deviation of about 1 / sigma, so the displacement is about
  // alpha / sigma. It is scaled with the wavelength, so that waves keep their shape.
  constexpr double least_sigma = 0.8;
  const double shrink = std::max(setting.scale, std::min(1.0, least_sigma / p.sigma));
  const double sigma = p.sigma * shrink, alpha = p.alpha * shrink * shrink;
  const Affine map = jittered_affine(image.width, image.height, p.jitter * setting.scale, setting.random);
  const FloatImage dx = smooth_noise(image.width, image.height, sigma, alpha, setting.random);
  const FloatImage dy = smooth_noise(image.width, image.height, sigma, alpha, setting.random);

  const auto& m = map.m;
  const FloatImage warped = resampled(image, Border::mirror, [&](int x, int y) {
    return Point{m[0] * x + m[1] * y + m[2], m[3] * x + m[4] * y + m[5]};
  });
  return resampled(warped, Border::reflect, [&](int x, int y) {
    return Point{x + dx.row(0, y)[x], y + dy.row(0, y)[x]};
  });
}

FloatImage pixelate(FloatImage image, const CorruptionSetting& setting) {
  constexpr double table[] = {0.6, 0.5, 0.4, 0.3, 0.25};
  const double factor = table[setting.severity];
  const int width = std::max(1, int(image.width * factor)), height = std::max(1, int(image.height * factor));
  const Image small = resize(to_image(image), width, height, Filter::box);
  return to_float(resize(small, image.width, image.height, Filter::box));
}

FloatImage jpeg_compression(FloatImage image, const CorruptionSetting& setting) {
  constexpr int quality[] = {25, 18, 15, 10, 7};
  const std::vector<uint8_t> bytes = encode_jpeg(to_image(image), quality[setting.severity]);
  const Image decoded = decode_image(bytes.data(), bytes.size(), "jpeg_compression");
  return to_float(image.channels == 1 ? to_grey(decoded) : decoded);
}

}  // namespace pursuit::data
