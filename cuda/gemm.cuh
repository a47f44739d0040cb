#pragma once
#include <algorithm>

#include "cuda/column_sums.cuh"
#include "cuda/gemm.h"
#include "engine/base/error.h"

// Shared by gemm.cu and its implementation on the simulated GPU: empty products, and our own kernels for
// epilogues for which the library has no algorithm.
#ifdef PURSUIT_GPU
namespace pursuit::cuda {

// d = beta c + bias, [rows, cols]; c and bias may be null.
template <class B, class T> __global__ void start_kernel(const B* bias, const T* c, float beta, T* d,
                                                         int64_t rows, int64_t cols, int64_t ldc,
                                                         int64_t ldd) {
  for (int64_t e = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; e < rows * cols;
       e += int64_t(gridDim.x) * blockDim.x) {
    const int64_t i = e / cols, j = e % cols;
    const float sum = (c ? beta * upcast(c[i * ldc + j]) : 0.0f) + (bias ? upcast(bias[j]) : 0.0f);
    d[i * ldd + j] = downcast<T>(sum);
  }
}

template <class B, class T> void start(const Gemm& g) {
  launch<start_kernel<B, T>>({blocks_for(g.m * g.n, 256), 256}, static_cast<const B*>(g.bias),
                             static_cast<const T*>(g.c), g.beta, static_cast<T*>(g.d), g.m, g.n, g.ldc,
                             g.ldd);
}

// g restricted to matrices from `first` on.
inline Gemm from_matrix(Gemm g, int64_t first) {
  const auto move = [&](const void* p, int64_t stride, DType type) {
    return p ? static_cast<const char*>(p) + first * stride * size_of(type) : nullptr;
  };
  g.a = move(g.a, g.stride_a, g.factors);
  g.b = move(g.b, g.stride_b, g.factors);
  g.c = move(g.c, g.stride_c, g.result);
  g.d = const_cast<char*>(move(g.d, g.stride_d, g.result));
  g.batch -= first;
  return g;
}

template <class T> void sum_rows(const Gemm& g) {
  column_sums(static_cast<const T*>(g.a), static_cast<T*>(g.row_sums), g.k, g.m);
}

// The library's epilogues fail for vectors that are not 16-byte aligned.
inline bool has_aligned_vectors(const Gemm& g) {
  return (reinterpret_cast<uintptr_t>(g.bias) | reinterpret_cast<uintptr_t>(g.row_sums)) % 16 == 0;
}

// Refuses products of integers that cuBLASLt lacks.
inline void require_integers(const Gemm& g) {
  const bool whole = (g.n | g.k | g.lda | g.ldb | g.ldd) % 4 == 0 && g.k > 0;
  if (g.result != DType::i32 || g.ta || !g.tb || g.alpha != 1 || g.beta != 0 || g.bias || g.row_sums ||
      !whole)
    fail("gemm", "products of i8 are D = A op(B) as i32 with B as [n, k]; n, k and ld are multiples of 4");
}

// Implements gemm() with `multiply`, which runs a nonempty product whose bias has the result's type, and
// returns false if it has no algorithm for the epilogue (bias or row_sums).
template <class Multiply> void gemm_by(Gemm g, const Multiply& multiply) {
  if (g.row_sums && (!g.ta || g.lda != g.m || g.batch != 1 || g.bias || g.result != g.factors))
    fail("gemm", "row_sums want one matrix A, transposed and contiguous, no bias, and a result of A's type");
  if (g.bias && g.batch != 1) fail("gemm", "a bias wants one matrix, got " + std::to_string(g.batch));
  if (g.m == 0 || g.batch == 0) return;
  if (g.beta == 0) g.c = nullptr;  // C may be NaN
  if (g.factors == DType::i8) {
    require_integers(g);
    if (g.n > 0) multiply(g);
    return;
  }
  const auto sum = g.factors == DType::f32 ? sum_rows<float> : sum_rows<bf16>;
  const auto begin = g.result == DType::f32 ? start<float, float> : start<bf16, bf16>;

  Workspace<float> wide_bias;
  if (g.bias && g.result != g.factors) {
    wide_bias = Workspace<float>(g.n);
    if (g.n) start<bf16, float>({.m = 1, .n = g.n, .d = wide_bias.data(), .ldd = g.n, .bias = g.bias});
    g.bias = wide_bias.data();
  }
  if (g.n == 0 || g.k == 0) {
    for (int64_t i = 0; g.n && i < g.batch; ++i) begin(from_matrix(g, i));
    if (g.row_sums) sum(g);
    return;
  }

  constexpr int64_t most = 32768;  // matrices per call; some of the library's limits are 65535
  for (int64_t i = 0; i < g.batch; i += most) {
    Gemm part = from_matrix(g, i);
    part.batch = std::min(most, part.batch);
    if (has_aligned_vectors(part) && multiply(part)) continue;
    if (part.row_sums) sum(part);
    if (part.bias) {  // D = beta C + bias, then D += alpha op(A) op(B)
      begin(part);
      part.c = part.d;
      part.ldc = part.ldd;
      part.beta = 1;
    }
    part.bias = part.row_sums = nullptr;
    multiply(part);
  }
}

}  // namespace pursuit::cuda
#endif
