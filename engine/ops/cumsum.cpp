#include "engine/operator/for_each.h"
#include "engine/operator/operator.h"
#include "engine/ops.h"

namespace pursuit {

namespace {

// One thread sums a line along the dimension, in f64: the rounding error of a running f32 sum grows with its
// length.
template <class T> struct SumSoFar {
  const T* x;
  T* y;
  int64_t count, x_stride, y_stride;
  HD void operator()(int64_t i, int64_t j) const {
    double sum = 0;
    for (int64_t n = 0; n < count; ++n) {
      sum += upcast(x[i + n * x_stride]);
      y[j + n * y_stride] = downcast<T>(compute_t<T>(sum));
    }
  }
};

}  // namespace

struct Cumsum {
  static constexpr const char* name = "cumsum";
  int dim = 0;

  Tensor sums(const Tensor& x) const {
    const Tensor y = empty_like(x);
    Shape lines = x.shape();
    lines[dim] = std::min<int64_t>(1, lines[dim]);
    const auto first = [&](const Tensor& t) { return t.view(lines, t.strides(), t.offset()); };
    dispatch(x, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      for_each(dev, layout_of(lines, first(x), first(y)),
               SumSoFar<T>{x.data<T>(), y.data<T>(), x.size(dim), x.stride(dim), y.stride(dim)});
    });
    return y;
  }
  Tensor forward(const Tensor& x) { return sums(x); }
  Grads backward(const Tensor& gy, Needs) { return {flip(sums(flip(gy, {dim})), {dim})}; }
  // As a product with a triangle of ones.
  Tensor reference(const Tensor& x) const {
    const Tensor last = x.transpose(dim, -1);
    const int64_t n = x.size(dim);
    Shape rows = last.shape();
    rows.insert(rows.size() - 1, 1);
    return matmul(last.reshape(rows), lower_triangle(n, x.dtype(), x.device()).transpose(0, 1))
        .reshape(last.shape())
        .transpose(dim, -1);
  }
  static std::vector<Sample<Cumsum>> samples() {
    return {{{0}, {{{7}}}}, {{1}, {{{3, 5}}}}, {{1}, {{{2, 33, 3}}}}, {{0}, {{{4, 129}}}}, {{0}, {{{0, 3}}}}};
  }
};
PURSUIT_OPERATOR(Cumsum)

Tensor cumsum(const Tensor& x, int dim) {
  require_defined("cumsum", {&x});
  return apply(Cumsum{x.wrap(dim)}, x);
}

}  // namespace pursuit
