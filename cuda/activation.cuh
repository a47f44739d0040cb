#pragma once
#include "cuda/column_sums.cuh"

// The activation of an MLP: GELU, x Phi(x) with Phi the normal distribution function, or ReLU.
//
// cuBLASLt offers GELU and its gradient as epilogues, but only the tanh approximation, which is off by 5e-4:
// enough to distinguish a network from the same one on the CPU. So the activation is a separate pass between
// products whose epilogues add the bias, or part of mlp.cuh's kernels.
#ifdef PURSUIT_GPU
namespace pursuit::cuda {

// exp(-x^2 / 2) and Phi(x), with the same rational fit as on the CPU (engine/cpu/rows/math.inc): the tail of
// Phi relative to the density, so that the negative tail keeps its relative accuracy.
struct Normal {
  float density, phi;
};
__device__ inline Normal standard_normal(float x) {
  const float a = fminf(fabsf(x), 14.0f);
  const float density = exp2f(-0.72134752f * a * a);  // log2(e) / 2
  float p = 4.02040349e-3f;
  p = p * a + 3.99858121e-2f;
  p = p * a + 1.81311922e-1f;
  p = p * a + 4.35693745e-1f;
  p = p * a + 5.00000002e-1f;
  float q = 1.00775139e-2f;
  q = q * a + 1.00236945e-1f;
  q = q * a + 4.64393871e-1f;
  q = q * a + 1.19450640f;
  q = q * a + 1.66927241f;
  q = q * a + 1.0f;
  const float tail = density * __fdividef(p, q);
  return {density, x < 0 ? tail : 1 - tail};
}

// An activation's value and derivative at x. from_result: both are the same at x and at
// value(x).
struct GeluOf {
  static constexpr bool from_result = false;
  __device__ static float value(float x) { return x * standard_normal(x).phi; }
  __device__ static float slope(float x) {
    const Normal n = standard_normal(x);
    return n.phi + x * (0.39894228040143268f * n.density);
  }
};
struct ReluOf {
  static constexpr bool from_result = true;
  __device__ static float value(float x) { return x < 0 ? 0 : x; }
  __device__ static float slope(float x) { return x > 0 ? 1.0f : 0.0f; }
};

// y = f(x) for n numbers; y may be x.
template <class F, int V, class T> __global__ void activation_kernel(const T* x, T* y, int64_t n) {
  const int64_t step = int64_t(gridDim.x) * blockDim.x * V;
  for (int64_t i = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * V; i < n; i += step) {
    Pack<T, V> p = load_pack<V>(x + i);
#pragma unroll
    for (int v = 0; v < V; ++v) p.v[v] = downcast<T>(F::value(upcast(p.v[v])));
    store_pack(y + i, p);
  }
}

// x and y must have the same alignment, as whole tensors do.
template <class F, class T> void activate(const T* x, T* y, int64_t n) {
  if (n == 0) return;
  with_pack<T>(n, {x}, [&]<int V>() {
    launch<activation_kernel<F, V, T>>({blocks_for(n / V, 256), 256}, x, y, n);
  });
}

// g *= f'(x); if `sums` is not null, it receives the sum of g's rows. x and g [rows, cols]. Blocks and parts
// are those of column_sums_kernel.
template <class F, int V, class T> __global__ void activation_gradient_kernel(const T* x, T* g, float* part,
                                                                              T* sums, int64_t rows,
                                                                              int64_t cols) {
  Shared shared;
  const int64_t j = (int64_t(blockIdx.x) * warp_size + threadIdx.x) * V;
  const int64_t begin = rows * blockIdx.y / gridDim.y, end = rows * (blockIdx.y + 1) / gridDim.y;
  float s[V] = {};
  if (j < cols) {
    for (int64_t i = begin + threadIdx.y; i < end; i += column_warps) {
      const int64_t at = i * cols + j;
      const Pack<T, V> px = load_pack<V>(x + at);
      Pack<T, V> pg = load_pack<V>(g + at);
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const float d = upcast(pg.v[v]) * F::slope(upcast(px.v[v]));
        s[v] += d;
        pg.v[v] = downcast<T>(d);
      }
      store_pack(g + at, pg);
    }
  }
  if (sums) add_up_columns(s, shared, j, part, sums, cols);
}

// g *= f'(x); if `sums` [cols] is not null, it receives the sum of g's rows. x and g have the same alignment.
template <class F, class T> void activation_gradient(const T* x, T* g, T* sums, int64_t rows, int64_t cols) {
  if (cols == 0) return;
  with_pack<T>(cols, {x}, [&]<int V>() {
    const dim3 grid = column_grid(rows, cols, V);
    const auto part = sums ? column_parts(grid, cols) : Workspace<float>();
    launch<activation_gradient_kernel<F, V, T>>({grid, {warp_size, column_warps}, column_shared(V)}, x, g,
                                                part.data(), sums, rows, cols);
  });
}

}  // namespace pursuit::cuda
#endif
