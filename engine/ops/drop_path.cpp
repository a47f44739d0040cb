#include "cuda/drop_path.cuh"

#include <algorithm>

#include "engine/base/random.h"
#include "engine/cpu/parallel.h"
#include "engine/operator/counter.h"
#include "engine/operator/operator.h"
#include "engine/operator/residual.h"
#include "engine/ops.h"

namespace pursuit {

// residual + drop_path(x). Saves only the counter: backward draws the same mask again.
struct DropPath {
  static constexpr const char* name = "drop_path";
  double p = 0;
  uint64_t seed = 0, stream = 0;
  Tensor counter = {};
  DType branch = DType::f32;  // of x; the residual and the result may be f32 with bf16
  bool has_residual = false;

  // residual may be null.
  template <class X, class Y> static void kernel(Cpu, const X* x, const Y* residual, Y* y, int64_t samples,
                                                 int64_t inner, uint64_t seed, uint64_t stream,
                                                 const int64_t* counter, float keep, float scale) {
    const Draws d = draws_of(stream, samples, counter);
    parallel_for(samples, std::max<int64_t>(1, 16384 / inner), [&](int64_t b, int64_t e) {
      for (int64_t s = b; s < e; ++s) {
        const bool kept = philox_uniform(seed, d.stream, d.first + uint64_t(s)) < keep;
        const int64_t first = s * inner, end = first + inner;
        const auto write = [&](const auto& value) {
#pragma omp simd
          for (int64_t i = first; i < end; ++i) y[i] = downcast<Y>(value(i));
        };
        const auto sample = [&](const auto& sum) {
          if (kept)
            write([&](int64_t i) { return sum(i) + upcast(x[i]) * scale; });
          else
            write(sum);
        };
        if (residual)
          sample([&](int64_t i) { return upcast(residual[i]); });
        else
          sample([](int64_t) { return compute_t<Y>(0); });
      }
    });
  }
#ifdef PURSUIT_GPU
  template <class X, class Y> static void kernel(Cuda, const X* x, const Y* residual, Y* y, int64_t samples,
                                                 int64_t inner, uint64_t seed, uint64_t stream,
                                                 const int64_t* counter, float keep, float scale) {
    cuda::drop_path(x, residual, y, samples, inner, seed, stream, counter, keep, scale);
  }
#endif

  Tensor forward(const Tensor& in, const Tensor& number, const Tensor& residual) {
    if (number.defined()) counter = number.to(DType::i64);
    branch = in.dtype();
    has_residual = residual.defined();
    const Tensor x = in.contiguous(), plus = has_residual ? residual.contiguous() : Tensor();
    const Tensor y = empty(x.shape(), has_residual ? plus.dtype() : x.dtype(), x.device());
    dispatch(x, y, name, [&]<class Dev, class X, class Y>(Dev dev, Type<X>, Type<Y>) {
      masked(dev, x.data<X>(), has_residual ? plus.data<Y>() : nullptr, y);
    });
    return y;
  }
  Grads backward(const Tensor& gy, Needs needs) {
    Tensor gx;
    if (needs[0]) {
      const Tensor g = gy.contiguous();
      gx = empty(g.shape(), branch, g.device());
      dispatch(gx, g, name, [&]<class Dev, class X, class Y>(Dev dev, Type<X>, Type<Y>) {
        masked<X>(dev, g.data<Y>(), nullptr, gx);
      });
    }
    return {gx, Tensor(), needs[2] && has_residual ? gy : Tensor()};
  }
  template <class Y, class X, class Dev>
  void masked(Dev dev, const X* x, const Y* residual, const Tensor& y) {
    if (y.numel() == 0) return;
    launch<DropPath>(dev, x, residual, y.data<Y>(), y.size(0), y.numel() / y.size(0), seed, stream,
                     counter.defined() ? static_cast<const int64_t*>(counter.data<int64_t>()) : nullptr,
                     float(1 - p), p < 1 ? float(1 / (1 - p)) : 0.0f);
  }

  Tensor reference(const Tensor& x, const Tensor& number, const Tensor& residual) const {
    std::vector<double> counted = {0, 0};
    if (number.defined()) counted = number.to_vector();
    const uint64_t drawn = stream + uint64_t(counted[0]), first = uint64_t(x.size(0)) * uint64_t(counted[1]);
    Shape shape = x.shape();
    for (int d = 1; d < shape.size(); ++d) shape[d] = 1;
    std::vector<double> mask(size_t(x.size(0)));
    for (size_t i = 0; i < mask.size(); ++i)
      mask[i] = philox_uniform(seed, drawn, first + i) < float(1 - p) ? double(float(1 / (1 - p))) : 0;
    const Tensor dropped = x * from_vector(mask, shape).to(x.dtype()).to(x.device());
    return residual.defined() ? residual + dropped : dropped;
  }
  static std::vector<Sample<DropPath>> samples() {
    // In bf16 the reference also rounds its mask, 1 / (1 - p); these p keep it exact.
    return {{{0.5, 1, 2}, {{{9, 5}}, left_out(), left_out()}},
            {{0.75, 7, 0}, {{{17, 3, 5}}, labels({2}, 100), {{17, 3, 5}}}},
            {{0.5, 3, 1}, {{{6, 40, 128}}, labels({2}, 100), left_out()}},
            {{0.5, 3, 1}, {{{6, 5, 128}}, labels({2}, 100), wide({{6, 5, 128}})}},
            {{0.5, 1, 2}, {{{0, 4}}, left_out(), {{0, 4}}}}};
  }
};
PURSUIT_OPERATOR(DropPath)

Tensor drop_path(const Tensor& x, double p, uint64_t seed, uint64_t stream, const Tensor& counter,
                 const Tensor& residual) {
  if (!(p >= 0 && p <= 1)) fail("drop_path", "got p " + std::to_string(p) + ", need 0 to 1");
  require_counter("drop_path", counter, x);
  if (x.ndim() == 0) fail("drop_path", "got " + x.str() + ", need samples along dimension 0");
  require_residual("drop_path", residual, x.shape(), x);
  if (p == 0) return residual.defined() ? residual + x : x;
  return apply(DropPath{p, seed, stream}, x, counter, residual);
}

}  // namespace pursuit
