#pragma once
#include "cuda/launch.h"
#include "engine/sizes/step_numbers.h"

// Passes over flat f32 buffers of n numbers; every thread processes four adjacent ones. Buffers are 16-byte
// aligned. Values that change from step to step are read from device memory.
#ifdef PURSUIT_GPU
namespace pursuit::cuda {

template <class T> struct alignas(4 * sizeof(T)) Four { T v[4]; };

// x[i] to x[i + 3], with zeros past the end.
template <class T> __device__ inline Four<T> load_four(const T* x, int64_t i, int64_t n) {
  if (i + 4 <= n) return *reinterpret_cast<const Four<T>*>(x + i);
  Four<T> four{};
#pragma unroll
  for (int k = 0; k < 4; ++k)
    if (i + k < n) four.v[k] = x[i + k];
  return four;
}
template <class T> __device__ inline void store_four(T* x, int64_t i, int64_t n, const Four<T>& four) {
  if (i + 4 <= n) {
    *reinterpret_cast<Four<T>*>(x + i) = four;
    return;
  }
#pragma unroll
  for (int k = 0; k < 4; ++k)
    if (i + k < n) x[i + k] = four.v[k];
}

// Calls f(i) for every fourth i below n, each in one thread of the grid.
template <class F> __device__ inline void for_each_four(int64_t n, const F& f) {
  for (int64_t i = 4 * (blockIdx.x * int64_t(blockDim.x) + threadIdx.x); i < n;
       i += 4 * int64_t(gridDim.x) * blockDim.x)
    f(i);
}

// Gradients to be gathered into the flat buffer.
struct Parts {
  static constexpr int most = 160;  // kernel arguments are limited to 4 KiB
  struct Part {
    const void* from;  // null: zeros
    int64_t at;
    int64_t count : 63;
    uint64_t bf16 : 1;
  } part[most];
};

// flat[at + i] = from[i] for the part blockIdx.y; += with `add`.
__global__ void gather_kernel(Parts parts, bool add, float* flat) {
  const Parts::Part& p = parts.part[blockIdx.y];
  float* to = flat + p.at;
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < p.count;
       i += int64_t(gridDim.x) * blockDim.x) {
    float v = 0;
    if (p.from)
      v = p.bf16 ? upcast(static_cast<const bf16*>(p.from)[i]) : static_cast<const float*>(p.from)[i];
    to[i] = add ? to[i] + v : v;
  }
}

// part[b] = the sum of squares of block b's elements.
__global__ void sum_squares_kernel(const float* x, int64_t n, float* part) {
  Shared shared;
  float* warps = shared.array<float>(warp_size);
  float sum = 0;
  for_each_four(n, [&](int64_t i) {
    const Four<float> four = load_four(x, i, n);
    for (float v : four.v) sum += v * v;
  });
  sum = block_sum(sum, warps);
  if (threadIdx.x == 0) part[blockIdx.x] = sum;
}

// See gradient_factor in engine/step/optim.h. Without parts, or if the norm is NaN, there is no clipping. One
// block.
__global__ void gradient_factor_kernel(const float* part, int parts, float most, const float* weight,
                                       float* factor) {
  Shared shared;
  float* warps = shared.array<float>(warp_size);
  float sum = 0;
  for (int i = int(threadIdx.x); i < parts; i += int(blockDim.x)) sum += part[i];
  sum = block_sum(sum, warps);
  if (threadIdx.x != 0) return;
  const float w = weight ? *weight : 1, f = most / (sqrtf(sum) / w + 1e-6f);
  *factor = (parts > 0 && f < 1 ? f : 1) / w;
}

// Arguments of the update kernels. `decays` is 1 where weight decay applies; `factor` (nullable) multiplies
// the gradients; `copy` (nullable) receives the new values, rounded.
struct FlatPointers {
  float* values;
  const float* grads;
  float *first, *second;
  const uint8_t* decays;
  const float* factor;
  bf16* copy;
  int64_t n;
};

__device__ inline void store_values(const FlatPointers& f, int64_t i, const Four<float>& values) {
  store_four(f.values, i, f.n, values);
  if (!f.copy) return;
  Four<bf16> rounded;
#pragma unroll
  for (int k = 0; k < 4; ++k) rounded.v[k] = downcast<bf16>(values.v[k]);
  store_four(f.copy, i, f.n, rounded);
}

// AdamW (Loshchilov & Hutter 2019) with rest = 1 - beta.
__global__ void adamw_kernel(FlatPointers f, const StepNumbers* step, float beta1, float rest1, float beta2,
                             float rest2, float eps) {
  const StepNumbers s = *step;
  const float factor = f.factor ? *f.factor : 1.0f;
  for_each_four(f.n, [&](int64_t i) {
    Four<float> p = load_four(f.values, i, f.n), m = load_four(f.first, i, f.n),
                v = load_four(f.second, i, f.n);
    const Four<float> g = load_four(f.grads, i, f.n);
    const Four<uint8_t> decays = load_four(f.decays, i, f.n);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float gradient = factor * g.v[k];
      m.v[k] = beta1 * m.v[k] + rest1 * gradient;
      v.v[k] = beta2 * v.v[k] + rest2 * (gradient * gradient);
      p.v[k] = (decays.v[k] ? s.keep : 1.0f) * p.v[k] - s.rate * m.v[k] / (sqrtf(v.v[k] * s.unbias) + eps);
    }
    store_four(f.first, i, f.n, m);
    store_four(f.second, i, f.n, v);
    store_values(f, i, p);
  });
}

// g' = factor g + weight_decay p; b = momentum b + g'; p -= lr (nesterov ? g' + momentum b : b).
__global__ void sgd_kernel(FlatPointers f, const StepNumbers* step, float momentum, float weight_decay,
                           bool nesterov) {
  const float lr = step->lr, factor = f.factor ? *f.factor : 1.0f;
  for_each_four(f.n, [&](int64_t i) {
    Four<float> p = load_four(f.values, i, f.n), b = load_four(f.first, i, f.n);
    const Four<float> g = load_four(f.grads, i, f.n);
    const Four<uint8_t> decays = load_four(f.decays, i, f.n);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float gradient = factor * g.v[k] + (decays.v[k] ? weight_decay : 0.0f) * p.v[k];
      b.v[k] = momentum * b.v[k] + gradient;
      p.v[k] -= lr * (nesterov ? gradient + momentum * b.v[k] : b.v[k]);
    }
    store_four(f.first, i, f.n, b);
    store_values(f, i, p);
  });
}

// e += rest (p - e), rest = 1 - decay.
__global__ void ema_kernel(float* e, const float* p, int64_t n, float rest) {
  for_each_four(n, [&](int64_t i) {
    Four<float> average = load_four(e, i, n);
    const Four<float> now = load_four(p, i, n);
#pragma unroll
    for (int k = 0; k < 4; ++k) average.v[k] += rest * (now.v[k] - average.v[k]);
    store_four(e, i, n, average);
  });
}

}  // namespace pursuit::cuda
#endif
