#include <algorithm>

#include "engine/cpu/convolution.h"
#include "engine/cpu/gemm.h"
#include "engine/cpu/parallel.h"
#include "engine/cpu/scratch.h"

namespace pursuit {

namespace {

// Calls f(offset in the group's channels of an image or -1 for padding, row of the unfolded image, column).
template <class F> void for_each_tap(const ConvShape& s, const F& f) {
  int64_t k = 0;
  for (int64_t c = 0; c < s.group_channels(); ++c)
    for (int64_t i = 0; i < s.h.kernel; ++i)
      for (int64_t j = 0; j < s.w.kernel; ++j, ++k)
        for (int64_t p = 0; p < s.positions(); ++p) {
          const int64_t y = s.h.at(p / s.across, i), x = s.w.at(p % s.across, j);
          f(s.h.holds(y) && s.w.holds(x) ? c * s.picture() + y * s.w.size + x : -1, k, p);
        }
}

// [depth, positions]
void unfold(const ConvShape& s, const double* x, double* columns) {
  for_each_tap(
      s, [&](int64_t at, int64_t k, int64_t p) { columns[k * s.positions() + p] = at < 0 ? 0 : x[at]; });
}
void fold(const ConvShape& s, const double* columns, double* x) {
  std::fill_n(x, s.group_channels() * s.picture(), 0.0);
  for_each_tap(s, [&](int64_t at, int64_t k, int64_t p) {
    if (at >= 0) x[at] += columns[k * s.positions() + p];
  });
}

// Group g of image n in a tensor with this many channels and numbers per channel.
int64_t part_at(const ConvShape& s, int64_t n, int64_t g, int64_t channels, int64_t size) {
  return (n * s.groups + g) * (channels / s.groups) * size;
}

}  // namespace

void convolve(const ConvShape& s, const double* x, const double* weight, const double* bias, double* y) {
  const int64_t m = s.group_out(), size = s.positions();
  parallel_for(s.batch * s.groups, 1, [&](int64_t begin, int64_t end) {
    double* columns = scratch<double>(0, s.depth() * size);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t g = i % s.groups;
      double* to = y + part_at(s, i / s.groups, g, s.out, size);
      unfold(s, x + part_at(s, i / s.groups, g, s.channels, s.picture()), columns);
      for (int64_t o = 0; o < m; ++o) std::fill_n(to + o * size, size, bias ? bias[g * m + o] : 0.0);
      gemm(false, false, m, size, s.depth(), 1.0, weight + g * m * s.depth(), s.depth(), columns, size, 1.0,
           to, size);
    }
  });
}

void convolve_input_gradient(const ConvShape& s, const double* gy, const double* weight, double* gx) {
  const int64_t m = s.group_out(), size = s.positions();
  parallel_for(s.batch * s.groups, 1, [&](int64_t begin, int64_t end) {
    double* columns = scratch<double>(0, s.depth() * size);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t g = i % s.groups;
      gemm(true, false, s.depth(), size, m, 1.0, weight + g * m * s.depth(), s.depth(),
           gy + part_at(s, i / s.groups, g, s.out, size), size, 0.0, columns, size);
      fold(s, columns, gx + part_at(s, i / s.groups, g, s.channels, s.picture()));
    }
  });
}

void convolve_weight_gradient(const ConvShape& s, const double* x, const double* gy, double* gw) {
  const int64_t m = s.group_out(), size = s.positions();
  std::fill_n(gw, s.out * s.depth(), 0.0);
  parallel_for(s.groups, 1, [&](int64_t begin, int64_t end) {
    double* columns = scratch<double>(0, s.depth() * size);
    for (int64_t g = begin; g < end; ++g)
      for (int64_t n = 0; n < s.batch; ++n) {
        unfold(s, x + part_at(s, n, g, s.channels, s.picture()), columns);
        gemm(false, true, m, s.depth(), size, 1.0, gy + part_at(s, n, g, s.out, size), size, columns, size,
             1.0, gw + g * m * s.depth(), s.depth());
      }
  });
}

}  // namespace pursuit
