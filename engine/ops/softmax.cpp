#include "engine/cpu/wide_rows.h"
#include "engine/operator.h"
#include "engine/ops.h"
#include "engine/parallel.h"

namespace pursuit {

struct Softmax {
  static constexpr const char* name = "softmax";
  Tensor y = {};

  template <class T>
  static void kernel(Cpu, T* y, int64_t n, int64_t cols) {
    using R = compute_t<T>;
    parallel_for(n, std::max<int64_t>(1, 4096 / (cols + 1)), [&](int64_t b, int64_t e) {
      std::vector<R> wide;
      for (int64_t i = b; i < e; ++i)
        change_row(y + i * cols, cols, wide,
                   [&](R* row) { rows<R>().softmax_rows(row, 1, cols, cols, nullptr, -1); });
    });
  }
  template <class T>
  static void gradient(Cpu, const T* y, T* d, int64_t n, int64_t cols) {
    using R = compute_t<T>;
    parallel_for(n, std::max<int64_t>(1, 8192 / (cols + 1)), [&](int64_t b, int64_t e) {
      std::vector<R> wide, wide_p;
      for (int64_t i = b; i < e; ++i) {
        const R* p = widen_row(y + i * cols, cols, wide_p);
        change_row(d + i * cols, cols, wide,
                   [&](R* row) { rows<R>().softmax_grad_rows(p, row, 1, cols, cols, 1); });
      }
    });
  }

  Tensor forward(const Tensor& x) {
    y = empty(x.shape(), x.dtype(), x.device());
    copy_values(y, x);
    if (y.numel() == 0) return y;
    dispatch(y, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      launch<Softmax>(dev, y.data<T>(), y.numel() / y.shape().back(), y.shape().back());
    });
    return y;
  }
  Grads backward(const Tensor& gy, Needs) {
    Tensor g = empty(y.shape(), y.dtype(), y.device());
    copy_values(g, gy);
    if (g.numel() == 0) return {g};
    dispatch(g, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      launch_gradient<Softmax>(dev, y.data<T>(), g.data<T>(), g.numel() / g.shape().back(), g.shape().back());
    });
    return {g};
  }
  Tensor reference(const Tensor& x) const {
    const Tensor e = exp(x);
    return e / sum(e, {-1}, true);
  }
  static std::vector<Sample<Softmax>> samples() {
    return {{{}, {{{3, 5}, -4, 4}}},
            {{}, {{{2, 3, 129}, -8, 8}}},
            {{}, {{{4, 1}}}},
            {{}, {{{0, 7}}}},
            {{}, {{{17}}}}};
  }
};
PURSUIT_OPERATOR(Softmax)

Tensor softmax(const Tensor& x) {
  if (x.ndim() == 0) fail("softmax", "got " + x.str() + ", need at least one dimension");
  return apply(Softmax{}, x);
}

}  // namespace pursuit
