#include "engine/operator/operator.h"
#include "engine/ops.h"
#include "engine/ops/pooling.h"

namespace pursuit {

namespace {

// The first of ties; NaN counts as the largest.
template <class T> struct LargestOfWindow {
  PoolShape s;
  const T* x;
  T* y;
  int32_t* index;  // within the plane
  HD void operator()(int64_t plane, int64_t row, int64_t col) const {
    using R = compute_t<T>;
    const T* from = x + plane * s.h.size * s.w.size;
    int64_t best = -1;
    R largest = 0;
    for (int64_t i = 0; i < s.h.kernel; ++i) {
      const int64_t at_row = s.h.at(row, i);
      if (!s.h.holds(at_row)) continue;
      for (int64_t j = 0; j < s.w.kernel; ++j) {
        const int64_t at_col = s.w.at(col, j);
        if (!s.w.holds(at_col)) continue;
        const R v = upcast(from[at_row * s.w.size + at_col]);
        if (best < 0 || v > largest || v != v) {
          largest = v;
          best = at_row * s.w.size + at_col;
        }
      }
    }
    const int64_t to = (plane * s.down + row) * s.across + col;
    y[to] = best < 0 ? pursuit::downcast<T>(R(-INFINITY)) : from[best];
    index[to] = int32_t(best);
  }
};

template <class T> struct GradientOfLargest {
  PoolShape s;
  const T* gy;
  const int32_t* index;
  T* gx;
  HD void operator()(int64_t plane, int64_t row, int64_t col) const {
    const Reaching h = windows_over(s.h, row, s.down), w = windows_over(s.w, col, s.across);
    compute_t<T> sum = 0;
    for (int64_t i = h.first; i <= h.last; ++i)
      for (int64_t j = w.first; j <= w.last; ++j) {
        const int64_t from = (plane * s.down + i) * s.across + j;
        if (index[from] == row * s.w.size + col) sum += upcast(gy[from]);
      }
    gx[(plane * s.h.size + row) * s.w.size + col] = pursuit::downcast<T>(sum);
  }
};

}  // namespace

struct MaxPool2d {
  static constexpr const char* name = "max_pool2d";
  MaxPoolOptions options = {2};  // kernel size, also the stride
  Tensor index = {};             // i32, the location of each window's maximum
  Shape before = {};

  PoolShape shape(const Tensor& x) const {
    return pool_shape(x, options.kernel, options.stride, options.padding, options.dilation);
  }

  Tensor forward(const Tensor& in) {
    const Tensor x = in.contiguous();
    const PoolShape s = shape(x);
    before = x.shape();
    const Tensor y = empty({x.size(0), x.size(1), s.down, s.across}, x.dtype(), x.device());
    index = empty(y.shape(), DType::i32, x.device());
    dispatch(x, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      for_each_place(dev, s.planes, s.down, s.across,
                     LargestOfWindow<T>{s, x.data<T>(), y.data<T>(), index.data<int32_t>()});
    });
    return y;
  }
  Grads backward(const Tensor& gy, Needs) {
    const Tensor g = gy.contiguous(), gx = empty(before, gy.dtype(), gy.device());
    const PoolShape s = shape(gx);
    dispatch(g, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      for_each_place(dev, s.planes, s.h.size, s.w.size,
                     GradientOfLargest<T>{s, g.data<T>(), index.data<int32_t>(), gx.data<T>()});
    });
    return {gx};
  }
  // Slices of each window, stacked.
  Tensor reference(const Tensor& x) const {
    const PoolShape s = shape(x);
    std::vector<Tensor> rows;
    for (int64_t i = 0; i < s.down; ++i) {
      std::vector<Tensor> row;
      for (int64_t j = 0; j < s.across; ++j) {
        std::vector<Tensor> taps;
        for (int64_t k = 0; k < s.h.kernel; ++k)
          for (int64_t l = 0; l < s.w.kernel; ++l) {
            const int64_t y = s.h.at(i, k), z = s.w.at(j, l);
            if (s.h.holds(y) && s.w.holds(z)) taps.push_back(x.select(2, y).select(2, z));
          }
        row.push_back(max_along(stack(taps, 0), 0).values);
      }
      rows.push_back(stack(row, 2));
    }
    return stack(rows, 2);
  }
  static std::vector<Sample<MaxPool2d>> samples() {
    return {{{{2, 2}}, {{{2, 3, 6, 8}}}},
            {{{3, 2, 1}}, {{{2, 2, 9, 7}}}},
            {{{{3, 2}, {1, 2}, {1, 0}, {2, 1}}}, {{{1, 3, 8, 5}}}},
            {{{5, 1, 2}}, {{{1, 2, 2, 3}}}},
            {{{2, 3}}, {{{3, 1, 11, 4}}}},
            {{{3, 2, 1}}, {{{0, 2, 4, 4}}}}};
  }
};
PURSUIT_OPERATOR(MaxPool2d)

Tensor max_pool2d(const Tensor& x, const MaxPoolOptions& options) {
  require_defined("max_pool2d", {&x});
  MaxPoolOptions o = options;
  if (o.stride.h == 0 && o.stride.w == 0) o.stride = o.kernel;
  require_windows("max_pool2d", x, o.kernel, o.stride, o.padding, o.dilation);
  require_half_padding("max_pool2d", o.kernel, o.padding);
  if (x.size(2) * x.size(3) > INT32_MAX)
    fail("max_pool2d", "got x " + x.str() + ", need pictures of at most 2^31 - 1 pixels; cut them");
  return apply(MaxPool2d{o}, x);
}

}  // namespace pursuit
