#include "data/float_image.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace pursuit::data {
namespace {

double normal_curve(double x, double sigma) { return std::exp(-0.5 * (x / sigma) * (x / sigma)); }

void normalise(std::vector<Tap>& taps) {
  double total = 0;
  for (const Tap& tap : taps) total += tap.weight;
  for (Tap& tap : taps) tap.weight = float(tap.weight / total);
}

void add_scaled(float* to, const float* from, float weight, int n) {
  for (int i = 0; i < n; ++i) to[i] += weight * from[i];
}

FloatImage transpose(const FloatImage& image) {
  FloatImage out(image.height, image.width, image.channels);
  for (int c = 0; c < image.channels; ++c)
    for (int y = 0; y < image.height; ++y) {
      const float* from = image.row(c, y);
      float* to = out.row(c, 0) + y;
      for (int x = 0; x < image.width; ++x) to[size_t(x) * size_t(out.width)] = from[x];
    }
  return out;
}

FloatImage blur_columns(const FloatImage& image, const std::vector<float>& curve, Border border) {
  FloatImage out(image.width, image.height, image.channels);
  const int radius = int(curve.size()) / 2, n = image.height;
  std::vector<float> folded(static_cast<size_t>(n));  // weights of all input rows for one output row
  for (int y = 0; y < n; ++y) {
    std::fill(folded.begin(), folded.end(), 0.0f);
    for (int k = -radius; k <= radius; ++k)
      folded[size_t(border_index(y + k, n, border))] += curve[size_t(k + radius)];
    for (int from = 0; from < n; ++from)
      if (folded[size_t(from)] != 0)
        for (int c = 0; c < image.channels; ++c)
          add_scaled(out.row(c, y), image.row(c, from), folded[size_t(from)], image.width);
  }
  return out;
}

// Output i of a magnified axis interpolates between pixel `low` and the next with fraction `t`.
struct Reading {
  int low;
  float t;
};

std::vector<Reading> readings(int size, double factor) {
  const int kept = int(std::ceil(size / factor)), magnified = int(std::nearbyint(kept * factor));
  const int first = (size - kept) / 2, trimmed = (magnified - size) / 2;
  const double step = magnified > 1 ? double(kept - 1) / (magnified - 1) : 0;
  std::vector<Reading> out;
  for (int i = 0; i < size; ++i) {
    const double at = first + (trimmed + i) * step;
    const int low = std::clamp(int(at), 0, std::max(0, size - 2));
    out.push_back({low, float(at - low)});
  }
  return out;
}

}  // namespace

FloatImage to_float(const Image& image) {
  FloatImage out(image.width, image.height, image.channels);
  const size_t plane = out.plane_size(), step = size_t(image.channels);
  for (size_t c = 0; c < step; ++c)
    for (size_t i = 0; i < plane; ++i) out.values[c * plane + i] = float(image.pixels[i * step + c]) / 255.0f;
  return out;
}

Image to_image(const FloatImage& image) {
  // An integer in f64 may be slightly less than one here.
  constexpr float slack = 1e-3f;
  Image out(image.width, image.height, image.channels);
  const size_t plane = image.plane_size(), step = size_t(image.channels);
  for (size_t c = 0; c < step; ++c)
    for (size_t i = 0; i < plane; ++i)
      out.pixels[i * step + c] =
          uint8_t(std::clamp(image.values[c * plane + i], 0.0f, 1.0f) * 255.0f + slack);
  return out;
}

int border_index(int i, int size, Border border) {
  if (i >= 0 && i < size) return i;
  if (border == Border::clamp || size == 1) return std::clamp(i, 0, size - 1);
  if (border == Border::reflect) {
    const int folded = (i < 0 ? -1 - i : i) % (2 * size);
    return std::min(folded, 2 * size - 1 - folded);
  }
  const int period = 2 * (size - 1), folded = std::abs(i) % period;
  return std::min(folded, period - folded);
}

FloatImage gaussian_blur(const FloatImage& image, double sigma, double truncate, Border border) {
  const int radius = int(truncate * sigma + 0.5);
  if (radius < 1) return image;
  std::vector<float> curve;
  double total = 0;
  for (int k = -radius; k <= radius; ++k) total += normal_curve(k, sigma);
  for (int k = -radius; k <= radius; ++k) curve.push_back(float(normal_curve(k, sigma) / total));
  return transpose(blur_columns(transpose(blur_columns(image, curve, border)), curve, border));
}

FloatImage convolve(const FloatImage& image, const std::vector<Tap>& taps, Border border) {
  int reach_x = 0, reach_y = 0;
  for (const Tap& tap : taps) {
    reach_x = std::max(reach_x, std::abs(tap.dx));
    reach_y = std::max(reach_y, std::abs(tap.dy));
  }
  FloatImage padded(image.width + 2 * reach_x, image.height + 2 * reach_y, 1);
  std::vector<int> column;
  for (int x = 0; x < padded.width; ++x) column.push_back(border_index(x - reach_x, image.width, border));

  FloatImage out(image.width, image.height, image.channels);
  for (int c = 0; c < image.channels; ++c) {
    for (int y = 0; y < padded.height; ++y) {
      const float* from = image.row(c, border_index(y - reach_y, image.height, border));
      float* to = padded.row(0, y);
      for (int x = 0; x < padded.width; ++x) to[x] = from[column[size_t(x)]];
    }
    for (int y = 0; y < out.height; ++y)
      for (const Tap& tap : taps)
        add_scaled(out.row(c, y), padded.row(0, y + reach_y + tap.dy) + reach_x + tap.dx, tap.weight,
                   out.width);
  }
  return out;
}

std::vector<Tap> disk_taps(double radius, double rim, int points) {
  const int half = std::max(8, int(radius)), smoothed = radius > 8 ? 2 : 1;
  const auto covered = [&](int x, int y) {
    int inside = 0;
    for (int j = 0; j < points; ++j)
      for (int i = 0; i < points; ++i)
        inside += std::hypot(x + (i + 0.5) / points - 0.5, y + (j + 0.5) / points - 0.5) <= radius;
    return inside;
  };
  FloatImage disk(2 * half + 1, 2 * half + 1, 1);
  int total = 0;
  for (int y = -half; y <= half; ++y)
    for (int x = -half; x <= half; ++x) total += covered(x, y);
  for (int y = -half; y <= half; ++y)
    for (int x = -half; x <= half; ++x) disk.row(0, y + half)[x + half] = float(covered(x, y)) / float(total);
  if (total == 0) {  // the disk lies between the points
    std::fill(disk.values.begin(), disk.values.end(), 0.0f);
    disk.row(0, half)[half] = 1;
  }
  disk = gaussian_blur(disk, rim, smoothed / rim, Border::mirror);
  std::vector<Tap> taps;
  for (int y = -half; y <= half; ++y)
    for (int x = -half; x <= half; ++x)
      if (const float weight = disk.row(0, y + half)[x + half]; weight > 0) taps.push_back({x, y, weight});
  return taps;
}

std::vector<Tap> motion_taps(double radius, double sigma, double degrees) {
  const double angle = degrees * std::numbers::pi / 180;
  const int length = std::max(2, int(std::lround(2 * radius)) + 1);
  std::vector<Tap> taps;
  for (int i = 0; i < length; ++i)
    taps.push_back({int(std::lround(i * std::cos(angle))), int(std::lround(i * std::sin(angle))),
                    float(normal_curve(i, sigma))});
  normalise(taps);
  return taps;
}

FloatImage clipped_zoom(const FloatImage& image, double factor) {
  FloatImage out(image.width, image.height, image.channels);
  const std::vector<Reading> across = readings(image.width, factor), down = readings(image.height, factor);
  // One pixel more than the row: in a picture one pixel wide the second neighbour has weight 0.
  std::vector<float> line(size_t(image.width) + 1);
  for (int c = 0; c < image.channels; ++c)
    for (int y = 0; y < image.height; ++y) {
      const auto [low, t] = down[size_t(y)];
      const float* upper = image.row(c, low);
      const float* lower = image.row(c, std::min(low + 1, image.height - 1));
      for (int x = 0; x < image.width; ++x) line[size_t(x)] = upper[x] + t * (lower[x] - upper[x]);
      float* to = out.row(c, y);
      for (int x = 0; x < image.width; ++x) {
        const auto [left, u] = across[size_t(x)];
        to[x] = line[size_t(left)] + u * (line[size_t(left) + 1] - line[size_t(left)]);
      }
    }
  return out;
}

void sample_bilinear(const FloatImage& image, float x, float y, Border border, float* out) {
  constexpr float far = 1 << 20;  // beyond it a float has hardly any fraction bits
  x = std::clamp(x, -far, far);
  y = std::clamp(y, -far, far);
  const float left = std::floor(x), top = std::floor(y), u = x - left, v = y - top;
  const int x0 = border_index(int(left), image.width, border),
            x1 = border_index(int(left) + 1, image.width, border);
  const int y0 = border_index(int(top), image.height, border),
            y1 = border_index(int(top) + 1, image.height, border);
  for (int c = 0; c < image.channels; ++c) {
    const float *upper = image.row(c, y0), *lower = image.row(c, y1);
    const float a = upper[x0] + u * (upper[x1] - upper[x0]), b = lower[x0] + u * (lower[x1] - lower[x0]);
    out[c] = a + v * (b - a);
  }
}

}  // namespace pursuit::data
