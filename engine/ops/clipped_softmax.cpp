#include "cuda/clipped_softmax.cuh"

#include "engine/cpu/parallel.h"
#include "engine/cpu/wide_rows.h"
#include "engine/operator/operator.h"
#include "engine/ops.h"

namespace pursuit {

struct ClippedSoftmax {
  static constexpr const char* name = "clipped_softmax";
  double gamma = 0, zeta = 1;
  Tensor p = {};  // before clipping

  template <class T>
  static void kernel(Cpu, const T* x, T* p, T* y, int64_t n, int64_t cols, double gamma, double zeta) {
    using R = compute_t<T>;
    parallel_for(n, std::max<int64_t>(1, 4096 / (cols + 1)), [&](int64_t b, int64_t e) {
      std::vector<R> wide, clipped(size_t(cols), R(0));
      for (int64_t i = b; i < e; ++i) {
        std::copy_n(x + i * cols, cols, p + i * cols);
        change_row(p + i * cols, cols, wide, [&](R* row) {
          rows<R>().softmax_rows(row, 1, cols, cols, nullptr, -1);
          // Clips before rounding to T: clipping magnifies the error of the smallest probabilities.
          std::copy_n(row, cols, clipped.data());
          rows<R>().clipped_softmax_rows(clipped.data(), 1, cols, cols, R(gamma), R(zeta));
          for (int64_t j = 0; j < cols; ++j) y[i * cols + j] = downcast<T>(clipped[size_t(j)]);
        });
      }
    });
  }
  template <class T> static void gradient(Cpu, const T* p, const T* gy, T* gx, int64_t n, int64_t cols,
                                          double gamma, double zeta) {
    using R = compute_t<T>;
    parallel_for(n, std::max<int64_t>(1, 8192 / (cols + 1)), [&](int64_t b, int64_t e) {
      std::vector<R> wide, wide_p;
      for (int64_t i = b; i < e; ++i) {
        const R* row_p = widen_row(p + i * cols, cols, wide_p);
        std::copy_n(gy + i * cols, cols, gx + i * cols);
        change_row(gx + i * cols, cols, wide, [&](R* row) {
          rows<R>().clipped_softmax_grad_rows(row_p, row, 1, cols, cols, R(gamma), R(zeta));
          rows<R>().softmax_grad_rows(row_p, row, 1, cols, cols);
        });
      }
    });
  }
#ifdef PURSUIT_GPU
  template <class T>
  static void kernel(Cuda, const T* x, T* p, T* y, int64_t n, int64_t cols, double gamma, double zeta) {
    cuda::with_team<T>(cols, {x, p, y}, [&]<class Team>(Type<Team>) {
      cuda::launch<cuda::clipped_softmax_kernel<Team, T>>(Team::grid(n), x, p, y, n, cols, float(gamma),
                                                          float(zeta));
    });
  }
  template <class T> static void gradient(Cuda, const T* p, const T* gy, T* gx, int64_t n, int64_t cols,
                                          double gamma, double zeta) {
    cuda::with_team<T>(cols, {p, gy, gx}, [&]<class Team>(Type<Team>) {
      cuda::launch<cuda::clipped_softmax_gradient_kernel<Team, T>>(Team::grid(n), p, gy, gx, n, cols,
                                                                   float(gamma), float(zeta));
    });
  }
#endif

  Tensor forward(const Tensor& in) {
    const Tensor x = in.contiguous();
    p = empty_like(x);
    Tensor y = empty_like(x);
    if (y.numel() == 0) return y;
    dispatch(y, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      launch<ClippedSoftmax>(dev, x.data<T>(), p.data<T>(), y.data<T>(), y.numel() / y.shape().back(),
                             y.shape().back(), gamma, zeta);
    });
    return y;
  }
  Grads backward(const Tensor& gy, Needs) {
    const Tensor g = gy.contiguous();
    Tensor gx = empty_like(p);
    if (gx.numel() == 0) return {gx};
    dispatch(gx, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      launch_gradient<ClippedSoftmax>(dev, p.data<T>(), g.data<T>(), gx.data<T>(),
                                      gx.numel() / gx.shape().back(), gx.shape().back(), gamma, zeta);
    });
    return {gx};
  }
  Tensor reference(const Tensor& x) const {
    const Tensor e = exp(x);
    return clamp(affine(e / sum(e, {-1}, true), zeta - gamma, gamma), 0, 1);
  }
  static std::vector<Sample<ClippedSoftmax>> samples() {
    return {{{-0.03, 1.03}, {{{3, 5}, -4, 4}}},
            {{-0.01, 1}, {{{2, 3, 65}, -4, 4}}},
            {{0, 1}, {{{4, 7}}}},
            {{-0.01, 1}, {{{2, 1024}, -8, 8}}},
            {{-0.03, 1.03}, {{{2, 513}, -8, 8}}},
            {{-0.03, 1.03}, {{{0, 7}}}}};
  }
};
PURSUIT_OPERATOR(ClippedSoftmax)

Tensor clipped_softmax(const Tensor& x, double gamma, double zeta) {
  if (x.ndim() == 0) fail("clipped_softmax", "got " + x.str() + ", need at least one dimension");
  if (!(gamma <= 0 && zeta >= 1))
    fail("clipped_softmax", "got gamma " + std::to_string(gamma) + " and zeta " + std::to_string(zeta) +
                                ", need gamma <= 0 and zeta >= 1");
  return apply(ClippedSoftmax{gamma, zeta}, x);
}

}  // namespace pursuit
