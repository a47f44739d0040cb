#include "data/interactive/distance.h"

#include <algorithm>

namespace pursuit::data {

namespace {

// y[i] = min_j (i - j)^2 + f[j] of a line with f = 0 at -1 and n: the lower envelope of parabolas, of which
// `places` are the vertices and `starts` the first i of each.
void envelope(const std::vector<int64_t>& f, std::vector<int64_t>& y, std::vector<int64_t>& places,
              std::vector<int64_t>& starts) {
  const int64_t n = int64_t(f.size());
  const auto height = [&](int64_t j) { return j < 0 || j >= n ? 0 : f[size_t(j)]; };
  // The first i from which the parabola at j > k is below that at k, rounded up.
  const auto crossing = [&](int64_t k, int64_t j) {
    const int64_t above = height(j) + j * j - height(k) - k * k, below = 2 * (j - k);
    return above >= 0 ? (above + below - 1) / below : -(-above / below);
  };
  places.assign(1, -1);
  starts.assign(1, 0);
  for (int64_t j = 0; j <= n; ++j) {
    int64_t from = crossing(places.back(), j);
    while (places.size() > 1 && from <= starts.back()) {
      places.pop_back();
      starts.pop_back();
      from = crossing(places.back(), j);
    }
    places.push_back(j);
    starts.push_back(from);
  }
  size_t at = 0;
  for (int64_t i = 0; i < n; ++i) {
    while (at + 1 < places.size() && starts[at + 1] <= i) ++at;
    y[size_t(i)] = (i - places[at]) * (i - places[at]) + height(places[at]);
  }
}

}  // namespace

std::vector<int64_t> squared_distances(const Image& marked) {
  const size_t width = size_t(marked.width), height = size_t(marked.height);
  std::vector<int64_t> distance(width * height);
  // Along columns: the distance to the nearest pixel above or below.
  for (size_t x = 0; x < width; ++x) {
    int64_t run = 0;
    for (size_t y = 0; y < height; ++y)
      distance[y * width + x] = run = marked.pixels[y * width + x] ? run + 1 : 0;
    run = 0;
    for (size_t y = height; y-- > 0;) {
      run = marked.pixels[y * width + x] ? run + 1 : 0;
      distance[y * width + x] = std::min(distance[y * width + x], run);
    }
  }
  std::vector<int64_t> f(width), row(width), places, starts;
  for (size_t y = 0; y < height; ++y) {
    for (size_t x = 0; x < width; ++x) f[x] = distance[y * width + x] * distance[y * width + x];
    envelope(f, row, places, starts);
    std::copy(row.begin(), row.end(), distance.begin() + int64_t(y * width));
  }
  return distance;
}

Components components(const Image& values, uint8_t ignored) {
  const int64_t width = values.width, pixels = int64_t(values.pixels.size());
  Components found{std::vector<int32_t>(size_t(pixels), -1), {}};
  std::vector<int64_t> open;
  for (int64_t first = 0; first < pixels; ++first) {
    const uint8_t value = values.pixels[size_t(first)];
    if (value == ignored || found.of_pixel[size_t(first)] >= 0) continue;
    const auto number = int32_t(found.area.size());
    found.area.push_back(0);
    const auto add = [&](int64_t i) {
      if (values.pixels[size_t(i)] != value || found.of_pixel[size_t(i)] >= 0) return;
      found.of_pixel[size_t(i)] = number;
      ++found.area.back();
      open.push_back(i);
    };
    add(first);
    while (!open.empty()) {
      const int64_t i = open.back();
      open.pop_back();
      if (i % width > 0) add(i - 1);
      if (i % width + 1 < width) add(i + 1);
      if (i >= width) add(i - width);
      if (i + width < pixels) add(i + width);
    }
  }
  return found;
}

}  // namespace pursuit::data
