#pragma once
#include <algorithm>
#include <vector>

#include "engine/core/dtype.h"
#include "engine/cpu/rows.h"

// Bilinear interpolation along one axis, with pixel centres at half-integers (align_corners = false).
namespace pursuit {

// The position of each of `to` outputs between `from` inputs.
template <class R> std::vector<Tap<R>> bilinear_taps(int64_t from, int64_t to) {
  std::vector<Tap<R>> taps(static_cast<size_t>(to));
  for (int64_t i = 0; i < to; ++i) {
    const double at = std::max(0.0, (double(i) + 0.5) * double(from) / double(to) - 0.5);
    const int64_t low = std::min(int64_t(at), from - 1);
    taps[size_t(i)] = {low, std::min(low + 1, from - 1), R(at - double(low))};
  }
  return taps;
}

// line = (1 - weight) row low + weight row high of x [rows, n].
template <class T, class R> void bilinear_line(const T* x, const Tap<R>& tap, int64_t n, R* line) {
  const T *low = x + tap.low * n, *high = x + tap.high * n;
  for (int64_t j = 0; j < n; ++j)
    line[j] = (1 - tap.weight) * R(upcast(low[j])) + tap.weight * R(upcast(high[j]));
}

}  // namespace pursuit
