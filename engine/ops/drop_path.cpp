#include "cuda/drop_path.cuh"

#include <algorithm>

#include "engine/base/random.h"
#include "engine/cpu/parallel.h"
#include "engine/operator/operator.h"
#include "engine/ops.h"

namespace pursuit {

// Of the inputs only the counter is saved: backward draws the same mask again.
struct DropPath {
  static constexpr const char* name = "drop_path";
  double p = 0;
  uint64_t seed = 0, stream = 0;
  Tensor counter = {};

  template <class T> static void kernel(Cpu, const T* x, T* y, int64_t samples, int64_t inner, uint64_t seed,
                                        uint64_t stream, const int64_t* counter, float keep, float scale) {
    const Draws d = draws_of(stream, samples, counter);
    parallel_for(samples, std::max<int64_t>(1, 16384 / inner), [&](int64_t b, int64_t e) {
      for (int64_t s = b; s < e; ++s) {
        const bool kept = philox_uniform(seed, d.stream, d.first + uint64_t(s)) < keep;
        for (int64_t i = s * inner; i < (s + 1) * inner; ++i)
          y[i] = kept ? downcast<T>(upcast(x[i]) * scale) : T{};
      }
    });
  }
#ifdef PURSUIT_GPU
  template <class T> static void kernel(Cuda, const T* x, T* y, int64_t samples, int64_t inner, uint64_t seed,
                                        uint64_t stream, const int64_t* counter, float keep, float scale) {
    cuda::drop_path(x, y, samples, inner, seed, stream, counter, keep, scale);
  }
#endif

  Tensor forward(const Tensor& in, const Tensor& number) {
    if (number.defined()) counter = number.to(DType::i64);
    const Tensor x = in.contiguous();
    Tensor y = empty(x.shape(), x.dtype(), x.device());
    if (x.numel() == 0) return y;
    const float scale = p < 1 ? float(1 / (1 - p)) : 0.0f;
    dispatch(x, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      launch<DropPath>(dev, x.data<T>(), y.data<T>(), x.size(0), x.numel() / x.size(0), seed, stream,
                       counter.defined() ? counter.data<int64_t>() : nullptr, float(1 - p), scale);
    });
    return y;
  }
  Grads backward(const Tensor& gy, Needs) { return {forward(gy, counter), Tensor()}; }
  Tensor reference(const Tensor& x, const Tensor& number) const {
    std::vector<double> counted = {0, 0};
    if (number.defined()) counted = number.to_vector();
    const uint64_t drawn = stream + uint64_t(counted[0]), first = uint64_t(x.size(0)) * uint64_t(counted[1]);
    Shape shape = x.shape();
    for (int d = 1; d < shape.size(); ++d) shape[d] = 1;
    std::vector<double> mask(size_t(x.size(0)));
    for (size_t i = 0; i < mask.size(); ++i)
      mask[i] = philox_uniform(seed, drawn, first + i) < float(1 - p) ? double(float(1 / (1 - p))) : 0;
    return x * from_vector(mask, shape).to(x.dtype()).to(x.device());
  }
  static std::vector<Sample<DropPath>> samples() {
    // In bf16 the reference rounds its mask, 1 / (1 - p), too; these p keep it exact.
    return {{{0.5, 1, 2}, {{{9, 5}}, left_out()}},
            {{0.75, 7, 0}, {{{17, 3, 5}}, labels({2}, 100)}},
            {{0.5, 3, 1}, {{{6, 40, 128}}, labels({2}, 100)}},
            {{0.5, 1, 2}, {{{0, 4}}, left_out()}}};
  }
};
PURSUIT_OPERATOR(DropPath)

Tensor drop_path(const Tensor& x, double p, uint64_t seed, uint64_t stream, const Tensor& counter) {
  if (!(p >= 0 && p <= 1)) fail("drop_path", "got p " + std::to_string(p) + ", need 0 to 1");
  if (counter.defined() && (counter.shape() != Shape{2} || counter.device() != x.device()))
    fail("drop_path", "got the counter " + counter.str() + ", need i64 [2] beside " + x.str());
  if (x.ndim() == 0) fail("drop_path", "got " + x.str() + ", need samples along dimension 0");
  return p == 0 ? x : apply(DropPath{p, seed, stream}, x, counter);
}

}  // namespace pursuit
