#include "cuda/rms_norm.cuh"

#include "engine/cpu/parallel.h"
#include "engine/cpu/scratch.h"
#include "engine/cpu/wide_rows.h"
#include "engine/operator/operator.h"
#include "engine/ops.h"

namespace pursuit {

// dtypes as for layer_norm: T is the type of x and its gradient, Y that of the result and its gradient.
struct RmsNorm {
  static constexpr const char* name = "rms_norm";
  double eps = 1e-6;
  std::optional<DType> result = {};  // empty: x's
  Tensor x = {}, weight = {};
  Tensor rrms = {};              // [rows]
  DType parameter = DType::f32;  // of weight as given

  static constexpr int64_t block = 16;  // rows widened at a time for bf16

  template <class T, class Y> static void kernel(Cpu, const RmsNorm& op, const T* x, Y* y) {
    using R = compute_t<T>;
    const int64_t cols = op.x.size(-1), n = op.rrms.numel(), step = std::is_same_v<Y, bf16> ? block : n;
    parallel_for(n, 16, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; r += step) {
        const int64_t m = std::min(step, end - r), size = copied<Y>(block * cols);
        R* copy = scratch<R>(0, 2 * size);
        const Rows<const R> from = read_rows(x + r * cols, cols, m, cols, copy);
        const Rows<R> to = target_rows(y + r * cols, cols, cols, copy + size);
        rows<R>().rms_norm_rows(from.p, op.weight.data<R>(), to.p, op.rrms.data<R>() + r, m, cols, R(op.eps));
        store_rows(y + r * cols, cols, m, cols, to);
      }
    });
  }

  template <class T, class Y>
  static void gradient(Cpu, const RmsNorm& op, const T* x, const Y* gy, T* gx, compute_t<T>* gw) {
    using R = compute_t<T>;
    const int64_t cols = op.x.size(-1), n = op.rrms.numel(), step = std::is_same_v<Y, bf16> ? block : n;
    // Splits the rows into fixed parts, summed in order: the result does not depend on the number of threads.
    const int64_t parts = std::clamp<int64_t>(n / 64, 1, 16);
    const Tensor partial = zeros({parts, cols}, op.weight.dtype());
    parallel_for(parts, 1, [&](int64_t first, int64_t last) {
      for (int64_t p = first; p < last; ++p) {
        const int64_t end = n * (p + 1) / parts;
        for (int64_t r = n * p / parts; r < end; r += step) {
          const int64_t m = std::min(step, end - r), size = copied<Y>(block * cols);
          R* copy = scratch<R>(0, 3 * size);
          const Rows<const R> from = read_rows(x + r * cols, cols, m, cols, copy);
          const Rows<const R> up = read_rows(gy + r * cols, cols, m, cols, copy + size);
          const Rows<R> to = target_rows(gx + r * cols, cols, cols, copy + 2 * size);
          rows<R>().rms_norm_grad_rows(from.p, up.p, op.weight.data<R>(), op.rrms.data<R>() + r, to.p,
                                       partial.data<R>() + p * cols, m, cols);
          store_rows(gx + r * cols, cols, m, cols, to);
        }
      }
    });
    rows<R>().column_sums(partial.data<R>(), parts, cols, cols, gw, false);
  }

#ifdef PURSUIT_GPU
  template <class T, class Y> static void kernel(Cuda, const RmsNorm& op, const T* x, Y* y) {
    const int64_t cols = op.x.size(-1), n = op.rrms.numel();
    if (n == 0) return;
    const float* weight = op.weight.data<float>();
    cuda::with_team<T>(cols, {x, weight, y}, [&]<class Team>(Type<Team>) {
      cuda::launch<cuda::rms_norm_kernel<Team, T, Y>>(Team::grid(n), x, weight, n, cols, float(op.eps), y,
                                                      op.rrms.data<float>());
    });
  }
  template <class T, class Y>
  static void gradient(Cuda, const RmsNorm& op, const T* x, const Y* gy, T* gx, float* gw) {
    const int64_t cols = op.x.size(-1), n = op.rrms.numel();
    if (cols == 0) return;
    const float* weight = op.weight.data<float>();
    cuda::with_team<T, cuda::summing_warps>(cols, {x, weight, gy, gx}, [&]<class Team>(Type<Team>) {
      const cuda::Grid grid = cuda::summing_grid<Team>(name, n, 1, cols);
      const cuda::Workspace<float> part(grid.blocks.x * cols);
      cuda::launch<cuda::rms_norm_gradient_kernel<Team, T, Y>>(grid, x, gy, weight, op.rrms.data<float>(), n,
                                                               cols, gx, part.data(), gw);
    });
  }
#endif

  Tensor forward(const Tensor& in, const Tensor& w) {
    x = in.contiguous();
    parameter = w.dtype();
    weight = w.to(compute_type(x.dtype())).contiguous();
    rrms = empty({x.size(-1) ? x.numel() / x.size(-1) : 0}, compute_type(x.dtype()), x.device());
    Tensor y = empty(x.shape(), result.value_or(x.dtype()), x.device());
    dispatch(y, x, name, [&]<class Dev, class Y, class T>(Dev dev, Type<Y>, Type<T>) {
      launch<RmsNorm>(dev, *this, x.data<T>(), y.data<Y>());
    });
    return y;
  }
  Grads backward(const Tensor& gy, Needs) {
    const Tensor g = gy.contiguous();
    Tensor gx = empty_like(x), gw = empty_like(weight);
    dispatch(g, x, name, [&]<class Dev, class Y, class T>(Dev dev, Type<Y>, Type<T>) {
      launch_gradient<RmsNorm>(dev, *this, x.data<T>(), g.data<Y>(), gx.data<T>(), gw.data<compute_t<T>>());
    });
    return {gx, gw.to(parameter)};
  }
  Tensor reference(const Tensor& in, const Tensor& w) const {
    return in / sqrt(pursuit::mean(square(in), {-1}, true) + eps) * w.to(in.dtype());
  }
  static std::vector<Sample<RmsNorm>> samples() {
    return {{{}, {{{3, 5}, -2, 2}, {{5}}}},
            {{1e-3}, {{{2, 129, 33}, -2, 2}, {{33}}}},
            {{}, {{{1, 768}, -2, 2}, {{768}}}},
            {{}, {{{9, 32}, -2, 2}, {{32}}}},
            {{}, {{{3, 513}, -2, 2}, {{513}}}},
            {{}, {{{2, 1032}, -2, 2}, {{1032}}}},
            {{}, {{{2, 19, 33}, -2, 2}, wide({{33}})}},
            {{}, {{{0, 5}}, {{5}}}}};
  }
};
PURSUIT_OPERATOR(RmsNorm)

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps, std::optional<DType> result) {
  require_defined("rms_norm", {&x, &weight});
  if (x.ndim() < 1 || weight.shape() != Shape{x.size(-1)} || !fits_beside(weight.dtype(), x.dtype()) ||
      weight.device() != x.device())
    fail("rms_norm", "got x " + x.str() + " and weight " + weight.str() +
                         ", need [..., dim] and [dim] of one dtype or f32 beside a bf16 x, on one device");
  if (result && !fits_beside(x.dtype(), *result))
    fail("rms_norm", "got x " + x.str() + " and a result of " + name_of(*result) +
                         ", need x's dtype, or bf16 of an f32 x");
  return apply(RmsNorm{eps, result}, x, weight);
}

}  // namespace pursuit
