#include "cuda/layer_norm.cuh"

#include "engine/cpu/parallel.h"
#include "engine/cpu/scratch.h"
#include "engine/cpu/wide_rows.h"
#include "engine/operator/operator.h"
#include "engine/ops.h"

namespace pursuit {

// Statistics, weight and bias stay f32 (f64 for f64) whatever the dtype of x: bf16 has too few digits. T is
// the type of x and its gradient, Y that of the result and its gradient.
struct LayerNorm {
  static constexpr const char* name = "layer_norm";
  double eps = 1e-6;
  std::optional<DType> result = {};  // empty: x's
  Tensor x = {}, weight = {};
  Tensor mean = {}, rstd = {};   // [rows]
  DType parameter = DType::f32;  // of weight and bias as given
  Tensor so_far = {};            // gradient of x so far, usually from the residual

  static constexpr int64_t block = 16;  // rows widened at a time for bf16

  template <class T, class Y>
  static void kernel(Cpu, const LayerNorm& op, const T* x, const compute_t<T>* bias, Y* y) {
    using R = compute_t<T>;
    const int64_t cols = op.x.size(-1), n = op.mean.numel(), step = std::is_same_v<Y, bf16> ? block : n;
    const R* w = op.weight.data<R>();
    parallel_for(n, 16, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; r += step) {
        const int64_t m = std::min(step, end - r);
        const int64_t size = copied<Y>(block * cols);
        R* copy = scratch<R>(0, 2 * size);
        const Rows<const R> from = read_rows(x + r * cols, cols, m, cols, copy);
        const Rows<R> to = target_rows(y + r * cols, cols, cols, copy + size);
        rows<R>().layer_norm_rows(from.p, w, bias, to.p, op.mean.data<R>() + r, op.rstd.data<R>() + r, m,
                                  cols, R(op.eps));
        store_rows(y + r * cols, cols, m, cols, to);
      }
    });
  }

  // gp [2, cols]: the gradients of weight and bias.
  template <class T, class Y>
  static void gradient(Cpu, const LayerNorm& op, const T* x, const Y* gy, T* gx, Y*, compute_t<T>* gp) {
    using R = compute_t<T>;
    const int64_t cols = op.x.size(-1), n = op.mean.numel(), step = std::is_same_v<Y, bf16> ? block : n;
    // Splits the rows into fixed parts, summed in order: the result does not depend on the number of threads.
    const int64_t parts = std::clamp<int64_t>(n / 64, 1, 16);
    const Tensor partial = zeros({parts, 2, cols}, op.weight.dtype());
    parallel_for(parts, 1, [&](int64_t first, int64_t last) {
      for (int64_t p = first; p < last; ++p) {
        R* sums = partial.data<R>() + p * 2 * cols;
        const int64_t end = n * (p + 1) / parts;
        for (int64_t r = n * p / parts; r < end; r += step) {
          const int64_t m = std::min(step, end - r);
          const int64_t size = copied<Y>(block * cols);
          R* copy = scratch<R>(0, 3 * size);
          const Rows<const R> from = read_rows(x + r * cols, cols, m, cols, copy);
          const Rows<const R> up = read_rows(gy + r * cols, cols, m, cols, copy + size);
          const Rows<R> to = target_rows(gx + r * cols, cols, cols, copy + 2 * size);
          rows<R>().layer_norm_grad_rows(from.p, up.p, op.weight.data<R>(), op.mean.data<R>() + r,
                                         op.rstd.data<R>() + r, to.p, sums, sums + cols, m, cols);
          store_rows(gx + r * cols, cols, m, cols, to);
        }
      }
    });
    rows<R>().column_sums(partial.data<R>(), parts, 2 * cols, 2 * cols, gp, false);
  }

#ifdef PURSUIT_GPU
  template <class T, class Y>
  static void kernel(Cuda, const LayerNorm& op, const T* x, const float* bias, Y* y) {
    const int64_t cols = op.x.size(-1), n = op.mean.numel();
    if (n == 0) return;
    const float* weight = op.weight.data<float>();
    cuda::with_team<T>(cols, {x, weight, bias, y}, [&]<class Team>(Type<Team>) {
      cuda::launch<cuda::layer_norm_kernel<Team, T, Y>>(Team::grid(n), x, weight, bias, n, cols,
                                                        float(op.eps), y, op.mean.data<float>(),
                                                        op.rstd.data<float>());
    });
  }
  template <class T, class Y>
  static void gradient(Cuda, const LayerNorm& op, const T* x, const Y* gy, T* gx, Y* narrow, float* gp) {
    cuda::layer_norm_gradient(x, gy, op.weight.data<float>(), op.mean.data<float>(), op.rstd.data<float>(),
                              op.mean.numel(), op.x.size(-1),
                              op.so_far.defined() ? static_cast<const T*>(op.so_far.data<T>()) : nullptr, gx,
                              narrow, cuda::NoFactor(), gp);
  }
#endif

  Tensor forward(const Tensor& in, const Tensor& w, const Tensor& b) {
    x = in.contiguous();
    parameter = w.dtype();
    weight = w.to(compute_type(x.dtype())).contiguous();
    const Tensor bias = b.to(compute_type(x.dtype())).contiguous();
    const int64_t n = x.size(-1) ? x.numel() / x.size(-1) : 0;
    mean = empty({n}, compute_type(x.dtype()), x.device());
    rstd = empty({n}, compute_type(x.dtype()), x.device());
    Tensor y = empty(x.shape(), result.value_or(x.dtype()), x.device());
    dispatch(y, x, name, [&]<class Dev, class Y, class T>(Dev dev, Type<Y>, Type<T>) {
      launch<LayerNorm>(dev, *this, x.data<T>(), bias.data<compute_t<T>>(), y.data<Y>());
    });
    return y;
  }
  Grads backward(const Tensor& gy, Needs) {
    const Tensor g = gy.contiguous();
    // On a GPU the kernel adds, in place if nothing else references the sum so far.
    const bool adds_here = so_far.defined() && x.device().is_cuda();
    if (adds_here) so_far = so_far.to(x.dtype()).contiguous();
    Tensor gx = adds_here && so_far.storage().use_count() == 1 ? so_far.detach() : empty_like(x),
           gp = empty({2, x.size(-1)}, weight.dtype(), x.device());
    // In gy's dtype, too, which the products of the branch before will want.
    const bool narrows = x.device().is_cuda() && g.dtype() != x.dtype();
    const Tensor narrow = narrows ? empty(x.shape(), g.dtype(), x.device()) : Tensor();
    dispatch(g, x, name, [&]<class Dev, class Y, class T>(Dev dev, Type<Y>, Type<T>) {
      launch_gradient<LayerNorm>(dev, *this, x.data<T>(), g.data<Y>(), gx.data<T>(),
                                 narrows ? narrow.data<Y>() : nullptr, gp.data<compute_t<T>>());
    });
    if (narrows) gx.requires_grad().bind_copy(narrow);
    if (so_far.defined() && !adds_here) add_to(gx, so_far);
    return {gx, gp.select(0, 0).to(parameter), gp.select(0, 1).to(parameter)};
  }
  Tensor reference(const Tensor& in, const Tensor& w, const Tensor& b) const {
    const Tensor centred = in - pursuit::mean(in, {-1}, true);
    return centred / sqrt(pursuit::mean(square(centred), {-1}, true) + eps) * w.to(in.dtype()) +
           b.to(in.dtype());
  }
  static std::vector<Sample<LayerNorm>> samples() {
    return {{{}, {{{3, 5}, -2, 2}, {{5}}, {{5}}}, 8},
            {{1e-3}, {{{2, 129, 33}, -2, 2}, {{33}}, {{33}}}, 8},
            {{}, {{{1, 768}, -2, 2}, {{768}}, {{768}}}, 8},
            {{}, {{{2, 776}, -2, 2}, {{776}}, {{776}}}, 8},
            {{}, {{{9, 32}, -2, 2}, {{32}}, {{32}}}, 8},
            {{}, {{{3, 513}, -2, 2}, {{513}}, {{513}}}, 8},
            {{}, {{{2, 1032}, -2, 2}, {{1032}}, {{1032}}}, 8},
            {{}, {{{2, 19, 33}, -2, 2}, wide({{33}}), wide({{33}})}, 8},
            {{}, {{{0, 5}}, {{5}}, {{5}}}}};
  }
};
PURSUIT_OPERATOR(LayerNorm)

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                  std::optional<DType> result) {
  if (x.ndim() < 1 || weight.shape() != Shape{x.size(-1)} || bias.shape() != weight.shape() ||
      weight.dtype() != bias.dtype() || !fits_beside(weight.dtype(), x.dtype()) ||
      weight.device() != x.device() || bias.device() != x.device())
    fail("layer_norm",
         "got x " + x.str() + ", weight " + weight.str() + ", bias " + bias.str() +
             ", need [..., dim], [dim], [dim] of one dtype or f32 beside a bf16 x, on one device");
  if (result && !fits_beside(x.dtype(), *result))
    fail("layer_norm", "got x " + x.str() + " and a result of " + name_of(*result) +
                           ", need x's dtype, or bf16 of an f32 x");
  return apply(LayerNorm{eps, result}, x, weight, bias);
}

}  // namespace pursuit
