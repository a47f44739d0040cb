#include "cuda/softmax.cuh"

#include "engine/cpu/parallel.h"
#include "engine/cpu/wide_rows.h"
#include "engine/operator/operator.h"
#include "engine/ops.h"

namespace pursuit {

struct Softmax {
  static constexpr const char* name = "softmax";
  Tensor y = {};

  template <class T> static void kernel(Cpu, const T* x, T* y, int64_t n, int64_t cols) {
    using R = compute_t<T>;
    parallel_for(n, std::max<int64_t>(1, 4096 / (cols + 1)), [&](int64_t b, int64_t e) {
      std::vector<R> wide;
      for (int64_t i = b; i < e; ++i) {
        std::copy_n(x + i * cols, cols, y + i * cols);
        change_row(y + i * cols, cols, wide,
                   [&](R* row) { rows<R>().softmax_rows(row, 1, cols, cols, nullptr, -1); });
      }
    });
  }
  template <class T> static void gradient(Cpu, const T* y, const T* gy, T* gx, int64_t n, int64_t cols) {
    using R = compute_t<T>;
    parallel_for(n, std::max<int64_t>(1, 8192 / (cols + 1)), [&](int64_t b, int64_t e) {
      std::vector<R> wide, wide_p;
      for (int64_t i = b; i < e; ++i) {
        const R* p = widen_row(y + i * cols, cols, wide_p);
        std::copy_n(gy + i * cols, cols, gx + i * cols);
        change_row(gx + i * cols, cols, wide,
                   [&](R* row) { rows<R>().softmax_grad_rows(p, row, 1, cols, cols); });
      }
    });
  }
#ifdef PURSUIT_GPU
  template <class T> static void kernel(Cuda, const T* x, T* y, int64_t n, int64_t cols) {
    cuda::with_team<T>(cols, {x, y}, [&]<class Team>(Type<Team>) {
      cuda::launch<cuda::softmax_kernel<Team, T>>(Team::grid(n), x, y, n, cols);
    });
  }
  template <class T> static void gradient(Cuda, const T* y, const T* gy, T* gx, int64_t n, int64_t cols) {
    cuda::with_team<T>(cols, {y, gy, gx}, [&]<class Team>(Type<Team>) {
      cuda::launch<cuda::softmax_gradient_kernel<Team, T>>(Team::grid(n), y, gy, gx, n, cols);
    });
  }
#endif

  Tensor forward(const Tensor& in) {
    const Tensor x = in.contiguous();
    y = empty_like(x);
    if (y.numel() == 0) return y;
    dispatch(y, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      launch<Softmax>(dev, x.data<T>(), y.data<T>(), y.numel() / y.shape().back(), y.shape().back());
    });
    return y;
  }
  Grads backward(const Tensor& gy, Needs) {
    const Tensor g = gy.contiguous();
    Tensor gx = empty_like(y);
    if (gx.numel() == 0) return {gx};
    dispatch(gx, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      launch_gradient<Softmax>(dev, y.data<T>(), g.data<T>(), gx.data<T>(), gx.numel() / gx.shape().back(),
                               gx.shape().back());
    });
    return {gx};
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
            {{}, {{{17}}}},
            {{}, {{{2, 511}, -8, 8}}},
            {{}, {{{3, 513}, -8, 8}}},
            {{}, {{{2, 1024}, -8, 8}}},
            {{}, {{{2, 4104}, -8, 8}}}};
  }
};
PURSUIT_OPERATOR(Softmax)

Tensor softmax(const Tensor& x) {
  if (x.ndim() == 0) fail("softmax", "got " + x.str() + ", need at least one dimension");
  return apply(Softmax{}, x);
}

}  // namespace pursuit
