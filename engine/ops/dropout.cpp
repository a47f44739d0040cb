#include "engine/base/random.h"
#include "engine/cpu/rows.h"
#include "engine/operator/counter.h"
#include "engine/operator/for_each.h"
#include "engine/operator/operator.h"
#include "engine/ops.h"

namespace pursuit {

// Saves only the counter: backward draws the same mask again.
struct Dropout {
  static constexpr const char* name = "dropout";
  double p = 0;
  uint64_t seed = 0, stream = 0;
  Tensor counter = {};

  template <class T> struct Body {
    const T* x;
    T* y;
    int64_t n;
    uint64_t seed, stream;
    const int64_t* counter;
    float keep, scale;
    HD T dropped(T v, float u) const { return u < keep ? downcast<T>(upcast(v) * scale) : T{}; }
    HD void operator()(int64_t i, int64_t j) const {
      const Draws d = draws_of(stream, n, counter);
      y[j] = dropped(x[i], philox_uniform(seed, d.stream, d.first + uint64_t(i)));
    }
#ifdef PURSUIT_GPU
    static constexpr int width = 16 / int(sizeof(T));
    bool aligned() const { return cuda::aligned(x) && cuda::aligned(y); }
    // Philox gives four numbers at a time, which may begin within a block of it and end within the next.
    __device__ void pack(int64_t i) const {
      const Draws d = draws_of(stream, n, counter);
      const uint64_t first = d.first + uint64_t(i), skipped = first % 4;
      cuda::Pack<T, width> some = cuda::load_pack<width>(x + i);
      PhiloxBlock block = philox(seed, d.stream, first / 4);
      for (int v = 0; v < width; v += 4) {
        const bool needs_next = v + 4 < width || skipped != 0;
        const PhiloxBlock next = needs_next ? philox(seed, d.stream, (first + uint64_t(v)) / 4 + 1) : block;
        for (int k = 0; k < 4; ++k) {
          const uint64_t word = skipped + uint64_t(k);
          const uint32_t drawn = word < 4 ? block.word(word) : next.word(word);
          some.v[v + k] = dropped(some.v[v + k], to_uniform(drawn));
        }
        block = next;
      }
      cuda::store_pack(y + i, some);
    }
#endif
  };

  template <class T> static void kernel(Cpu, const T* x, T* y, int64_t n, uint64_t seed, uint64_t stream,
                                        const int64_t* counter, float keep, float scale) {
    const Draws d = draws_of(stream, n, counter);
    constexpr int64_t tile = 256, block = 4, most = tile + block;  // in numbers; a block is one Philox output
    const int64_t skipped = int64_t(d.first % block);
    parallel_for((n + tile - 1) / tile, 16, [&](int64_t b, int64_t e) {
      float u[most];
      for (int64_t i = b * tile; i < std::min(n, e * tile); i += tile) {
        const int64_t m = std::min(tile, n - i);
        rows<float>().philox_uniforms(seed, d.stream, d.first + uint64_t(i - skipped), u, skipped + m);
        for (int64_t j = 0; j < m; ++j)
          y[i + j] = u[skipped + j] < keep ? downcast<T>(upcast(x[i + j]) * scale) : T{};
      }
    });
  }
#ifdef PURSUIT_GPU
  template <class T> static void kernel(Cuda dev, const T* x, T* y, int64_t n, uint64_t seed, uint64_t stream,
                                        const int64_t* counter, float keep, float scale) {
    Layout<2> flat;
    flat.ndim = 1;
    flat.numel = flat.size[0] = n;
    flat.stride[0][0] = flat.stride[1][0] = 1;
    for_each(dev, flat, Body<T>{x, y, n, seed, stream, counter, keep, scale});
  }
#endif

  Tensor forward(const Tensor& in, const Tensor& number) {
    if (number.defined()) counter = number.to(DType::i64);
    const Tensor x = in.contiguous();
    Tensor y = empty(x.shape(), x.dtype(), x.device());
    const float scale = p < 1 ? float(1 / (1 - p)) : 0.0f;
    dispatch(x, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      launch<Dropout>(dev, x.data<T>(), y.data<T>(), x.numel(), seed, stream,
                      counter.defined() ? counter.data<int64_t>() : nullptr, float(1 - p), scale);
    });
    return y;
  }
  Grads backward(const Tensor& gy, Needs) { return {forward(gy, counter), Tensor()}; }
  Tensor reference(const Tensor& x, const Tensor& number) const {
    std::vector<double> counted = {0, 0};
    if (number.defined()) counted = number.to_vector();
    const uint64_t drawn = stream + uint64_t(counted[0]), first = uint64_t(x.numel()) * uint64_t(counted[1]);
    std::vector<double> mask(size_t(x.numel()));
    for (size_t i = 0; i < mask.size(); ++i)
      mask[i] = philox_uniform(seed, drawn, first + i) < float(1 - p) ? double(float(1 / (1 - p))) : 0;
    return x * from_vector(mask, x.shape()).to(x.dtype()).to(x.device());
  }
  static std::vector<Sample<Dropout>> samples() {
    // In bf16 the reference also rounds its mask, 1 / (1 - p); these p keep it exact.
    return {{{0.5, 1, 2}, {{{3, 5}}, left_out()}},
            {{0.75, 7, 0}, {{{2, 3, 67}}, labels({2}, 100)}},
            {{0.5, 1, 2}, {{{0, 4}}, left_out()}}};
  }
};
PURSUIT_OPERATOR(Dropout)

Tensor dropout(const Tensor& x, double p, uint64_t seed, uint64_t stream, const Tensor& counter) {
  require_defined("dropout", {&x});
  if (!(p >= 0 && p <= 1)) fail("dropout", "got p " + std::to_string(p) + ", need 0 to 1");
  require_counter("dropout", counter, x);
  return p == 0 ? x : apply(Dropout{p, seed, stream}, x, counter);
}

}  // namespace pursuit
