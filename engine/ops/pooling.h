#pragma once
#include "engine/operator/for_each.h"
#include "engine/ops/window_checks.h"

// Code shared by max and average pooling. Kernels are functors of a window or a pixel, for both backends.
namespace pursuit {

// x [planes, h.size, w.size], y [planes, down, across].
struct PoolShape {
  int64_t planes;
  Windows h, w;
  int64_t down, across;
};
inline PoolShape pool_shape(const Tensor& x, Pair kernel, Pair stride, Pair padding, Pair dilation) {
  PoolShape s{x.size(0) * x.size(1),
              {x.size(2), kernel.h, stride.h, padding.h, dilation.h},
              {x.size(3), kernel.w, stride.w, padding.w, dilation.w},
              0,
              0};
  s.down = s.h.count();
  s.across = s.w.count();
  return s;
}

// Windows [first, last] that may contain pixel i.
struct Reaching {
  int64_t first, last;
};
HD inline Reaching windows_over(const Windows& w, int64_t i, int64_t count) {
  const int64_t at = i + w.padding, before = at - w.dilation * (w.kernel - 1);
  const int64_t last = at / w.stride;
  return {before > 0 ? (before + w.stride - 1) / w.stride : 0, last < count ? last : count - 1};
}

// Calls f(plane, row, column) for an element's index.
template <class F> struct ByPlace {
  F f;
  int64_t rows, cols;
  HD void operator()(int64_t e) const { f(e / cols / rows, e / cols % rows, e % cols); }
};
template <class F> void for_each_place(Cpu, int64_t planes, int64_t rows, int64_t cols, const F& f) {
  parallel_for(planes * rows, std::max<int64_t>(1, 4096 / (cols + 1)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      for (int64_t col = 0; col < cols; ++col) f(i / rows, i % rows, col);
  });
}
#ifdef PURSUIT_GPU
template <class F> void for_each_place(Cuda dev, int64_t planes, int64_t rows, int64_t cols, const F& f) {
  Layout<1> all;
  all.ndim = 1;
  all.numel = all.size[0] = planes * rows * cols;
  all.stride[0][0] = 1;
  for_each(dev, all, ByPlace<F>{f, rows, cols});
}
#endif

}  // namespace pursuit
