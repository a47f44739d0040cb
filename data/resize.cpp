#include "data/resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/base/error.h"

namespace pursuit::data {
namespace {

// Weights are fixed-point numbers with 22 fraction bits. The other bits of an int32 are 8 for the pixel, 2
// for the overshoot of the cubic filter, and the sign. This is as in Pillow, so results agree bit for bit.
constexpr int kFractionBits = 22;

double filter_support(Filter filter) {
  switch (filter) {
    case Filter::box:
      return 0.5;
    case Filter::bilinear:
      return 1.0;
    default:
      return 2.0;
  }
}

double filter_weight(Filter filter, double x) {
  const double d = std::abs(x);
  switch (filter) {
    case Filter::box:
      return x > -0.5 && x <= 0.5 ? 1.0 : 0.0;
    case Filter::bilinear:
      return d < 1 ? 1 - d : 0.0;
    default:
      constexpr double a = -0.5;
      if (d < 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
      if (d < 2) return (((d - 5) * d + 8) * d - 4) * a;
      return 0.0;
  }
}

// Output i of one axis is the sum of weights[offset + k] * input[first + k], k < count.
struct Taps {
  struct Window {
    int first, count;
    size_t offset;
  };
  std::vector<Window> windows;
  std::vector<int32_t> weights;
};

// The taps of outputs [begin, begin + count) of `out`.
Taps make_taps(int in, int out, int begin, int count, Filter filter) {
  const double scale = double(in) / out, stretch = std::max(scale, 1.0);
  // At scale 1 every filter returns the pixel itself, and resize skips the axis.
  const double support = in == out ? 0.5 : filter_support(filter) * stretch;
  Taps taps;
  std::vector<double> window;
  for (int i = begin; i < begin + count; ++i) {
    const double centre = (i + 0.5) * scale;
    const int first = std::max(0, int(centre - support + 0.5));
    const int last = std::min(in, int(centre + support + 0.5));
    window.clear();
    double total = 0;
    for (int k = first; k < last; ++k) {
      window.push_back(filter_weight(filter, (k - centre + 0.5) / stretch));
      total += window.back();
    }
    taps.windows.push_back({first, last - first, taps.weights.size()});
    for (double w : window) taps.weights.push_back(int32_t(std::lround(w / total * (1 << kFractionBits))));
  }
  return taps;
}

uint8_t to_byte(int32_t sum) { return uint8_t(std::clamp(sum >> kFractionBits, 0, 255)); }

// Resizes rows [begin, end) of the picture along x.
template <int kChannels> Image resize_rows(const Image& image, int begin, int end, const Taps& taps) {
  Image out(int(taps.windows.size()), end - begin, kChannels);
  for (int y = begin; y < end; ++y) {
    uint8_t* to = out.at(0, y - begin);
    for (const Taps::Window& window : taps.windows) {
      const uint8_t* from = image.at(window.first, y);
      const int32_t* weights = &taps.weights[window.offset];
      int32_t sum[kChannels];
      for (int c = 0; c < kChannels; ++c) sum[c] = 1 << (kFractionBits - 1);
      for (int k = 0; k < window.count; ++k)
        for (int c = 0; c < kChannels; ++c) sum[c] += weights[k] * from[k * kChannels + c];
      for (int c = 0; c < kChannels; ++c) *to++ = to_byte(sum[c]);
    }
  }
  return out;
}

// `image` starts at row `begin` of the picture for which the taps were made.
Image resize_columns(const Image& image, int begin, const Taps& taps) {
  Image out(image.width, int(taps.windows.size()), image.channels);
  const size_t row = size_t(image.width) * size_t(image.channels);
  std::vector<int32_t> sum(row);
  for (int y = 0; y < out.height; ++y) {
    const Taps::Window& window = taps.windows[size_t(y)];
    std::fill(sum.begin(), sum.end(), 1 << (kFractionBits - 1));
    for (int k = 0; k < window.count; ++k) {
      const uint8_t* from = image.at(0, window.first - begin + k);
      const int32_t weight = taps.weights[window.offset + size_t(k)];
      for (size_t i = 0; i < row; ++i) sum[i] += weight * from[i];
    }
    std::transform(sum.begin(), sum.end(), out.at(0, y), to_byte);
  }
  return out;
}

void check_size(const char* where, const Image& image, int width, int height) {
  if (image.pixels.empty()) fail(where, "the picture is empty");
  if (width < 1 || height < 1)
    fail(where,
         "size: got " + std::to_string(width) + " x " + std::to_string(height) + ", need at least 1 x 1");
}

void check_sizes(const char* where, const Image& image, int width, int height, const Box& part) {
  check_size(where, image, width, height);
  const auto within = [](int begin, int size, int whole) {
    return begin >= 0 && size >= 1 && size <= whole - begin;
  };
  if (!within(part.x, part.width, width) || !within(part.y, part.height, height))
    fail(where, "part: got " + std::to_string(part.width) + " x " + std::to_string(part.height) + " from x " +
                    std::to_string(part.x) + ", y " + std::to_string(part.y) + ", need one within " +
                    std::to_string(width) + " x " + std::to_string(height));
}

}  // namespace

Image resize(const Image& image, int width, int height, Filter filter) {
  return resize(image, width, height, {0, 0, width, height}, filter);
}

Image resize(const Image& image, int width, int height, const Box& part, Filter filter) {
  check_sizes("resize", image, width, height, part);
  const Taps across = make_taps(image.width, width, part.x, part.width, filter),
             down = make_taps(image.height, height, part.y, part.height, filter);
  const Taps::Window& last = down.windows.back();
  const int begin = down.windows.front().first, end = last.first + last.count;
  const Image rows = width == image.width  ? crop(image, part.x, begin, part.width, end - begin)
                     : image.channels == 3 ? resize_rows<3>(image, begin, end, across)
                                           : resize_rows<1>(image, begin, end, across);
  return height == image.height ? rows : resize_columns(rows, begin, down);
}

Image resize_nearest(const Image& image, int width, int height) {
  return resize_nearest(image, width, height, {0, 0, width, height});
}

Image resize_nearest(const Image& image, int width, int height, const Box& part) {
  check_sizes("resize_nearest", image, width, height, part);
  const auto source = [](int i, int from, int to) { return int((2 * int64_t(i) + 1) * from / (2 * to)); };
  std::vector<int> columns(static_cast<size_t>(part.width));
  for (int x = 0; x < part.width; ++x)
    columns[size_t(x)] = source(part.x + x, image.width, width) * image.channels;
  Image out(part.width, part.height, image.channels);
  for (int y = 0; y < part.height; ++y) {
    const uint8_t* row = image.at(0, source(part.y + y, image.height, height));
    uint8_t* to = out.at(0, y);
    for (const int column : columns)
      for (int c = 0; c < image.channels; ++c) *to++ = row[column + c];
  }
  return out;
}

Image resize_shorter(const Image& image, int size, Filter filter) {
  check_size("resize_shorter", image, size, size);
  const int shorter = std::min(image.width, image.height);
  const auto scaled = [&](int side) { return side == shorter ? size : int(int64_t(size) * side / shorter); };
  return resize(image, scaled(image.width), scaled(image.height), filter);
}

Image crop(const Image& image, int x, int y, int width, int height) {
  check_size("crop", image, width, height);
  Image out(width, height, image.channels);
  const int left = std::max(0, x), right = int(std::min<int64_t>(image.width, int64_t(x) + width));
  if (left >= right) return out;
  for (int row = 0; row < height; ++row) {
    const int64_t from = int64_t(y) + row;
    if (from < 0 || from >= image.height) continue;
    std::memcpy(out.at(left - x, row), image.at(left, int(from)),
                size_t(right - left) * size_t(image.channels));
  }
  return out;
}

Image center_crop(const Image& image, int width, int height) {
  // Half margins are rounded to even if the picture is larger; if it is smaller, the odd black column is on
  // the right.
  const auto margin = [](int side, int wanted) {
    return side >= wanted ? int(std::nearbyint((side - wanted) / 2.0)) : -((wanted - side) / 2);
  };
  return crop(image, margin(image.width, width), margin(image.height, height), width, height);
}

Image imagenet_view(const Image& image, int size, Filter filter) {
  return center_crop(resize_shorter(image, size * 256 / 224, filter), size, size);
}

Image resized_crop(const Image& image, int x, int y, int width, int height, int new_width, int new_height,
                   Filter filter) {
  return resize(crop(image, x, y, width, height), new_width, new_height, filter);
}

Image flip_horizontal(const Image& image) {
  Image out(image.width, image.height, image.channels);
  for (int y = 0; y < image.height; ++y)
    for (int x = 0; x < image.width; ++x)
      std::copy_n(image.at(x, y), image.channels, out.at(image.width - 1 - x, y));
  return out;
}

}  // namespace pursuit::data
