#include "cuda/sum.cuh"

#include <algorithm>

#include "cuda/column_sums.cuh"
#include "engine/cpu/parallel.h"
#include "engine/operator/operator.h"
#include "engine/ops.h"

namespace pursuit {

namespace {

template <class T> using sum_t = std::conditional_t<std::is_same_v<T, double>, double, float>;

}  // namespace

struct Sum {
  static constexpr const char* name = "sum";
  std::vector<int> dims = {};  // ascending, not negative
  bool keep = false;
  Shape before = {};

  // Pairwise summation of blocks of 128 terms: the rounding error grows with the logarithm of the length.
  template <class T> static sum_t<T> pairwise(const T* x, int64_t n) {
    if (n > 128) return pairwise(x, n / 2) + pairwise(x + n / 2, n - n / 2);
    sum_t<T> s[8] = {};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
      for (int k = 0; k < 8; ++k) s[k] += upcast(x[i + k]);
    for (; i < n; ++i) s[0] += upcast(x[i]);
    return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));
  }
  // y [rows] = the sums of the rows of x [rows, cols]; by_columns: of x [cols, rows], on a GPU.
  template <class T> static void kernel(Cpu, const T* x, T* y, int64_t rows, int64_t cols, bool) {
    parallel_for(rows, std::max<int64_t>(1, 16384 / (cols + 1)), [&](int64_t b, int64_t e) {
      for (int64_t i = b; i < e; ++i) y[i] = downcast<T>(pairwise(x + i * cols, cols));
    });
  }
#ifdef PURSUIT_GPU
  template <class T> static void kernel(Cuda, const T* x, T* y, int64_t rows, int64_t cols, bool by_columns) {
    by_columns ? cuda::column_sums(x, y, cols, rows) : cuda::sums_of_rows(x, y, rows, cols);
  }
#endif

  Shape result(bool keep_dims) const {
    Shape shape = before;
    for (int i = int(dims.size()) - 1; i >= 0; --i) {
      if (keep_dims)
        shape[dims[size_t(i)]] = 1;
      else
        shape.erase(dims[size_t(i)]);
    }
    return shape;
  }

  Tensor forward(const Tensor& x) {
    before = x.shape();
    std::vector<int> order;
    int64_t cols = 1;
    for (int d = 0; d < x.ndim(); ++d)
      if (!std::count(dims.begin(), dims.end(), d)) order.push_back(d);
    for (int d : dims) {
      order.push_back(d);
      cols *= before[d];
    }
    Tensor y = empty(result(keep), x.dtype(), x.device());
    // A GPU adds up leading dimensions as they lie, unless a warp would be short of columns.
    const bool by_columns =
        x.device().is_cuda() && !dims.empty() && dims.back() + 1 == int(dims.size()) && y.numel() >= 32;
    const Tensor dense = (by_columns ? x : x.permute(order)).contiguous();
    dispatch(x, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      launch<Sum>(dev, static_cast<const T*>(dense.data<T>()), y.data<T>(), y.numel(), cols, by_columns);
    });
    return y;
  }
  Grads backward(const Tensor& gy, Needs) { return {gy.reshape(result(true)).expand(before)}; }
  static std::vector<Sample<Sum>> samples() {
    return {{{{0, 1}}, {{{3, 5}}}},      {{{1}, true}, {{{2, 33, 3}}}},
            {{{0}}, {{{129, 7}}}},       {{{0, 2}}, {{{3, 4, 65}}}},
            {{{0, 1}}, {{{3, 50, 40}}}},  // by columns on a GPU
            {{{0, 1}}, {{{130, 129}}}},   // split into parts on a GPU
            {{{1}}, {{{2, 16390}}}},     {{{1}}, {{{3, 0}}}}};
  }
};
PURSUIT_OPERATOR(Sum)

Tensor sum(const Tensor& x, const std::vector<int>& dims, bool keep) {
  require_defined("sum", {&x});
  std::vector<int> sorted;
  for (int d = 0; d < x.ndim() && dims.empty(); ++d) sorted.push_back(d);
  for (int d : dims) sorted.push_back(x.wrap(d));
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    fail("sum", "a dimension is given twice");
  return apply(Sum{sorted, keep}, x);
}

Tensor mean(const Tensor& x, const std::vector<int>& dims, bool keep) {
  const Tensor s = sum(x, dims, keep);
  if (s.numel() == 0) return s;
  if (x.numel() == 0) fail("mean", "of nothing: " + x.str());
  return div(s, double(x.numel()) / double(s.numel()));
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  require_defined("sum_to", {&x});
  if (x.shape() == shape) return x;
  std::vector<int> dims;
  const int lead = x.ndim() - shape.size();
  for (int d = 0; d < x.ndim(); ++d)
    if (d < lead || (shape[d - lead] == 1 && x.shape()[d] != 1)) dims.push_back(d);
  return dims.empty() ? x.reshape(shape) : sum(x, dims).reshape(shape);
}

}  // namespace pursuit
