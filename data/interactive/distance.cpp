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
  // Equal pixels beside each other in a row, [begin, end), in raster order. The first run of a component is
  // the root of the others.
  struct Run {
    int32_t begin, end, parent;
  };
  std::vector<Run> runs;
  const auto root = [&](int32_t run) {
    while (runs[size_t(run)].parent != run)
      run = runs[size_t(run)].parent = runs[size_t(runs[size_t(run)].parent)].parent;
    return run;
  };
  const int32_t width = values.width, pixels = int32_t(values.pixels.size());
  size_t above = 0;  // the first run of the row above
  for (int32_t row = 0; row < pixels; row += width) {
    const size_t first = runs.size();
    for (int32_t begin = row, end; begin < row + width; begin = end) {
      const uint8_t value = values.pixels[size_t(begin)];
      for (end = begin + 1; end < row + width && values.pixels[size_t(end)] == value;) ++end;
      if (value == ignored) continue;
      const auto run = int32_t(runs.size());
      runs.push_back({begin, end, run});
      while (above < first && runs[above].end <= begin - width) ++above;
      for (size_t touching = above; touching < first && runs[touching].begin < end - width; ++touching) {
        if (values.pixels[size_t(runs[touching].begin)] != value) continue;
        const int32_t a = root(run), b = root(int32_t(touching));
        runs[size_t(std::max(a, b))].parent = std::min(a, b);
      }
    }
    above = first;
  }
  Components found{std::vector<int32_t>(size_t(pixels), -1), {}};
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto [begin, end, parent] = runs[i];
    const bool is_root = size_t(parent) == i;
    if (is_root) found.area.push_back(0);
    const int32_t number = is_root ? int32_t(found.area.size()) - 1
                                   : found.of_pixel[size_t(runs[size_t(root(int32_t(i)))].begin)];
    found.area[size_t(number)] += end - begin;
    std::fill(found.of_pixel.begin() + begin, found.of_pixel.begin() + end, number);
  }
  return found;
}

}  // namespace pursuit::data
