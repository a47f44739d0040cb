#include "data/resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "data/kernels.h"
#include "engine/base/error.h"

namespace pursuit::data {
namespace {

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

// The windows of one axis. Their weights are in `weights`.
struct Taps {
  std::vector<Window> windows;
  std::vector<int32_t> weights;

  int begin() const { return windows.front().first; }
  int end() const { return windows.back().first + windows.back().count; }
};

// The taps of outputs [begin, begin + count) of `out`.
Taps make_taps(int in, int out, int begin, int count, Filter filter) {
  const double scale = double(in) / out, stretch = std::max(scale, 1.0);
  // At scale 1 every filter returns the pixel itself, and resize skips the axis.
  const double support = in == out ? 0.5 : filter_support(filter) * stretch;
  Taps taps;
  std::vector<size_t> offsets;
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
    taps.windows.push_back({first, last - first, nullptr});
    offsets.push_back(taps.weights.size());
    for (double w : window) taps.weights.push_back(int32_t(std::lround(w / total * (1 << kFractionBits))));
  }
  for (size_t i = 0; i < offsets.size(); ++i) taps.windows[i].weights = &taps.weights[offsets[i]];
  return taps;
}

size_t round_up(size_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

// Rows of bytes, `stride` apart; rows and their length are rounded up to whole vectors.
struct Rows {
  Rows(size_t bytes, size_t count)
      : stride(round_up(bytes)), bytes(std::make_unique_for_overwrite<uint8_t[]>(stride * round_up(count))) {}
  size_t stride;
  std::unique_ptr<uint8_t[]> bytes;
};

// Rows [begin, end) of the box resized along x.
Rows resize_rows(const Image& image, const Box& box, int begin, int end, Taps taps) {
  const size_t channels = size_t(image.channels), count = taps.windows.size();
  const int left = taps.begin();
  const size_t from = size_t(taps.end() - left) * channels;
  for (Window& window : taps.windows) window.first -= left;
  Rows out(count * channels, size_t(end - begin));
  const auto scratch = std::make_unique_for_overwrite<uint8_t[]>((from + out.stride) * kLanes);
  for (int y = begin; y < end; y += kLanes) {
    const uint8_t* rows[kLanes];
    for (int r = 0; r < kLanes; ++r) rows[r] = image.at(box.x + left, box.y + std::min(y + r, end - 1));
    picture_kernels().weigh_columns(rows, from, taps.windows.data(), count, image.channels, scratch.get(),
                                    &out.bytes[size_t(y - begin) * out.stride], out.stride);
  }
  return out;
}

// Columns [left, left + width) of rows [begin, end) of the box.
Rows copy_rows(const Image& image, const Box& box, int begin, int end, int left, int width) {
  const size_t bytes = size_t(width) * size_t(image.channels);
  Rows out(bytes, size_t(end - begin));
  for (int y = begin; y < end; ++y)
    std::memcpy(&out.bytes[size_t(y - begin) * out.stride], image.at(box.x + left, box.y + y), bytes);
  return out;
}

// `part` of a box of the image resized to width x height.
Image resize_box(const Image& image, const Box& box, int width, int height, const Box& part, Filter filter) {
  const Taps across = make_taps(box.width, width, part.x, part.width, filter);
  Taps down = make_taps(box.height, height, part.y, part.height, filter);
  const int begin = down.begin(), end = down.end();
  const Rows rows = width == box.width ? copy_rows(image, box, begin, end, part.x, part.width)
                                       : resize_rows(image, box, begin, end, across);
  Image out(part.width, part.height, image.channels);
  const size_t bytes = size_t(part.width) * size_t(image.channels);
  for (int y = 0; y < part.height; ++y) {
    Window& window = down.windows[size_t(y)];
    window.first -= begin;
    if (height == box.height)
      std::memcpy(out.at(0, y), &rows.bytes[size_t(y) * rows.stride], bytes);
    else
      picture_kernels().weigh_rows(rows.bytes.get(), rows.stride, window, bytes, out.at(0, y));
  }
  return out;
}

template <int channels> void flip_row(const uint8_t* __restrict row, int width, uint8_t* __restrict out) {
  for (int x = 0; x < width; ++x)
    for (int c = 0; c < channels; ++c) out[x * channels + c] = row[(width - 1 - x) * channels + c];
}

void check_size(const char* where, const Image& image, int width, int height) {
  if (image.pixels.empty()) fail(where, "the picture is empty");
  if (width < 1 || height < 1)
    fail(where,
         "size: got " + std::to_string(width) + " x " + std::to_string(height) + ", need at least 1 x 1");
}

void check_sizes(const char* where, const Image& image, int width, int height, const Box& part) {
  check_size(where, image, width, height);
  check_part(where, part, width, height);
}

// Width and height of the picture once its shorter side is `size`. Throws if a side does not fit an int.
std::pair<int, int> with_shorter(const Image& image, int size) {
  check_size("resize_shorter", image, size, size);
  const int shorter = std::min(image.width, image.height);
  const int64_t longer = int64_t(size) * std::max(image.width, image.height) / shorter;
  if (longer > std::numeric_limits<int>::max())
    fail("resize_shorter", "a picture of " + std::to_string(image.width) + " x " +
                               std::to_string(image.height) + " is too thin for a shorter side of " +
                               std::to_string(size));
  const auto scaled = [&](int side) { return side == shorter ? size : int(longer); };
  return {scaled(image.width), scaled(image.height)};
}

// The first of `wanted` pixels in the middle of `side`: half margins are rounded to even if the picture is
// larger; if it is smaller, the odd black column is on the right.
int middle(int side, int wanted) {
  return side >= wanted ? int(std::nearbyint((side - wanted) / 2.0)) : -((wanted - side) / 2);
}

}  // namespace

Image resize(const Image& image, int width, int height, Filter filter) {
  return resize(image, width, height, {0, 0, width, height}, filter);
}

Image resize(const Image& image, int width, int height, const Box& part, Filter filter) {
  check_sizes("resize", image, width, height, part);
  return resize_box(image, {0, 0, image.width, image.height}, width, height, part, filter);
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

int scaled_side(int64_t side, double factor) {
  const double scaled = std::max(1.0, std::round(double(side) * factor));
  if (!(scaled <= std::numeric_limits<int>::max()))
    fail("resize", "a side of " + std::to_string(side) +
                       " pixels becomes too long; the picture is too thin for the "
                       "shorter side that is wanted");
  return int(scaled);
}

Image resize_shorter(const Image& image, int size, Filter filter) {
  const auto [width, height] = with_shorter(image, size);
  return resize(image, width, height, filter);
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

Image part_of(const Image& image, const ChoosePart& choose) {
  const Box box = choose(image.width, image.height).box;
  check_part("part_of", box, image.width, image.height);
  return crop(image, box.x, box.y, box.width, box.height);
}

Image center_crop(const Image& image, int width, int height) {
  return crop(image, middle(image.width, width), middle(image.height, height), width, height);
}

Image imagenet_view(const Image& image, int size, Filter filter) {
  // Only the middle is computed: a thin picture would be enlarged to gigabytes.
  const auto [width, height] = with_shorter(image, size * 256 / 224);
  return resize(image, width, height, {middle(width, size), middle(height, size), size, size}, filter);
}

Image resized_crop(const Image& image, int x, int y, int width, int height, int new_width, int new_height,
                   Filter filter) {
  check_size("resized_crop", image, width, height);
  check_size("resized_crop", image, new_width, new_height);
  const Box box{x, y, width, height}, all{0, 0, new_width, new_height};
  if (x >= 0 && y >= 0 && width <= image.width - x && height <= image.height - y)
    return resize_box(image, box, new_width, new_height, all, filter);
  return resize(crop(image, x, y, width, height), new_width, new_height, filter);
}

Image flip_horizontal(const Image& image) {
  Image out(image.width, image.height, image.channels);
  for (int y = 0; y < image.height; ++y)
    (image.channels == 3 ? flip_row<3> : flip_row<1>)(image.at(0, y), image.width, out.at(0, y));
  return out;
}

}  // namespace pursuit::data
