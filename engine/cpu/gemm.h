#pragma once
#include <cstdint>

#include "engine/core/dtype.h"

namespace pursuit {

// Row-major C = alpha op(A) op(B) + beta C on the CPU; op(A) is m x k, op(B) k x n, ld* are row strides in
// elements. f32 uses our register tiles (engine/cpu/rows/gemm.inc), f64 OpenBLAS; bf16 accumulates in f32
// with our tiles for AMX's and AVX-512's bf16 instructions (engine/cpu/bf16_tiles.h), and otherwise widened
// to f32. Runs on the calling thread only: callers split the rows of C.
void gemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, double alpha, const double* a, int64_t lda,
          const double* b, int64_t ldb, double beta, double* c, int64_t ldc);
void gemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha, const float* a, int64_t lda,
          const float* b, int64_t ldb, float beta, float* c, int64_t ldc);
void gemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha, const bf16* a, int64_t lda,
          const bf16* b, int64_t ldb, float beta, bf16* c, int64_t ldc);
// The same products of bf16 matrices, returning the f32 accumulator.
void gemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha, const bf16* a, int64_t lda,
          const bf16* b, int64_t ldb, float beta, float* c, int64_t ldc);

// C = alpha A A^T for A [n, k], in f32 at about half the cost of gemm.
void gram(int64_t n, int64_t k, double alpha, const double* a, int64_t lda, double* c, int64_t ldc);
void gram(int64_t n, int64_t k, float alpha, const float* a, int64_t lda, float* c, int64_t ldc);

}  // namespace pursuit
