#include "engine/operator/operator.h"
#include "engine/ops.h"
#include "engine/ops/pooling.h"

namespace pursuit {

namespace {

// The divisor of window (row, col): its number of pixels, or of pixels within the image.
struct Divisor {
  bool all;
  HD static int64_t within(const Windows& w, int64_t p) {
    const int64_t begin = w.at(p, 0), end = begin + w.kernel;
    return (end < w.size ? end : w.size) - (begin > 0 ? begin : 0);
  }
  HD int64_t of(const PoolShape& s, int64_t row, int64_t col) const {
    return all ? s.h.kernel * s.w.kernel : within(s.h, row) * within(s.w, col);
  }
};

template <class T> struct MeanOfWindow {
  PoolShape s;
  Divisor divisor;
  const T* x;
  T* y;
  HD void operator()(int64_t plane, int64_t row, int64_t col) const {
    using R = compute_t<T>;
    const T* from = x + plane * s.h.size * s.w.size;
    R sum = 0;
    for (int64_t i = 0; i < s.h.kernel; ++i) {
      const int64_t at_row = s.h.at(row, i);
      if (!s.h.holds(at_row)) continue;
      for (int64_t j = 0; j < s.w.kernel; ++j) {
        const int64_t at_col = s.w.at(col, j);
        if (s.w.holds(at_col)) sum += upcast(from[at_row * s.w.size + at_col]);
      }
    }
    y[(plane * s.down + row) * s.across + col] = downcast<T>(sum / R(divisor.of(s, row, col)));
  }
};

template <class T> struct GradientOfMean {
  PoolShape s;
  Divisor divisor;
  const T* gy;
  T* gx;
  HD void operator()(int64_t plane, int64_t row, int64_t col) const {
    using R = compute_t<T>;
    const Reaching h = windows_over(s.h, row, s.down), w = windows_over(s.w, col, s.across);
    R sum = 0;
    for (int64_t i = h.first; i <= h.last; ++i)
      for (int64_t j = w.first; j <= w.last; ++j)
        sum += upcast(gy[(plane * s.down + i) * s.across + j]) / R(divisor.of(s, i, j));
    gx[(plane * s.h.size + row) * s.w.size + col] = downcast<T>(sum);
  }
};

}  // namespace

struct AvgPool2d {
  static constexpr const char* name = "avg_pool2d";
  AvgPoolOptions options = {2};  // kernel size, also the stride
  Shape before = {};

  PoolShape shape(const Tensor& x) const {
    return pool_shape(x, options.kernel, options.stride, options.padding, 1);
  }

  Tensor forward(const Tensor& in) {
    const Tensor x = in.contiguous();
    const PoolShape s = shape(x);
    before = x.shape();
    const Tensor y = empty({x.size(0), x.size(1), s.down, s.across}, x.dtype(), x.device());
    dispatch(x, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      for_each_place(dev, s.planes, s.down, s.across,
                     MeanOfWindow<T>{s, {options.count_include_pad}, x.data<T>(), y.data<T>()});
    });
    return y;
  }
  Grads backward(const Tensor& gy, Needs) {
    const Tensor g = gy.contiguous(), gx = empty(before, gy.dtype(), gy.device());
    const PoolShape s = shape(gx);
    dispatch(g, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      for_each_place(dev, s.planes, s.h.size, s.w.size,
                     GradientOfMean<T>{s, {options.count_include_pad}, g.data<T>(), gx.data<T>()});
    });
    return {gx};
  }
  // Convolves each channel with ones.
  Tensor reference(const Tensor& x) const {
    const AvgPoolOptions& o = options;
    const auto sums = [&](const Tensor& of) {
      const Tensor one = ones({of.size(1), 1, o.kernel.h, o.kernel.w}, of.dtype(), of.device());
      return conv2d(of, one, {}, {.stride = o.stride, .padding = o.padding, .groups = of.size(1)});
    };
    if (o.count_include_pad) return sums(x) / double(o.kernel.h * o.kernel.w);
    return sums(x) / sums(ones(x.shape(), x.dtype(), x.device()));
  }
  static std::vector<Sample<AvgPool2d>> samples() {
    return {{{{2, 2}}, {{{2, 3, 6, 8}}}},           {{{3, 2, 1}}, {{{2, 2, 9, 7}}}},
            {{{3, 2, 1, false}}, {{{2, 2, 9, 7}}}}, {{{{3, 2}, {1, 3}, {1, 0}, false}}, {{{1, 3, 8, 5}}}},
            {{{5, 1, 2, false}}, {{{1, 2, 2, 3}}}}, {{{2, 3}}, {{{3, 1, 11, 4}}}},
            {{{3, 2, 1}}, {{{0, 2, 4, 4}}}}};
  }
};
PURSUIT_OPERATOR(AvgPool2d)

Tensor avg_pool2d(const Tensor& x, const AvgPoolOptions& options) {
  require_defined("avg_pool2d", {&x});
  AvgPoolOptions o = options;
  if (o.stride.h == 0 && o.stride.w == 0) o.stride = o.kernel;
  require_windows("avg_pool2d", x, o.kernel, o.stride, o.padding, 1);
  require_half_padding("avg_pool2d", o.kernel, o.padding);
  return apply(AvgPool2d{o}, x);
}

}  // namespace pursuit
