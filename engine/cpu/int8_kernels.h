#pragma once
#include <cstdint>

#include "engine/sizes/affine_grid.h"

// Kernels of quantised models: rounding of activations, and exact products of their codes with int8 weights.
// Single-threaded; matrices are row-major, ld* are row strides in elements; m, n, k > 0.
namespace pursuit {

// Up to so many products of a code and a weight never overflow an int32 sum: 255 * 128 * k < 2^31.
constexpr int64_t deepest_int8_product = 65793;

struct Int8Kernels {
  const char* isa;  // "sse2", "avx2", "avx_vnni", "avx512", "avx512_vnni" or "amx"

  // y = step (q - zero) with q = clamp(round(x / step) + zero, 0, levels), ties to even; NaN stays NaN. y may
  // be x.
  void (*fake_quantize)(const float* x, float* y, int64_t n, AffineGrid grid);

  // The codes of x [m, k], for gemm: coded_size(m, k) bytes. Returns whether x has no NaN, which has no code.
  int64_t (*coded_size)(int64_t m, int64_t k);
  bool (*encode)(const float* x, int64_t m, int64_t k, int64_t ld, AffineGrid grid, void* to);

  // Weights w [n, k] in the order in which gemm reads them: packed_size(n, k) bytes, filled by `parts` calls,
  // which threads may share.
  int64_t (*packed_size)(int64_t n, int64_t k);
  void (*pack)(int64_t n, int64_t k, const int8_t* w, int64_t ldw, int64_t part, int64_t parts, void* to);

  // c_ij = sum_k (q_ik - zero) w_jk, exactly, for k <= deepest_int8_product and codes made with this `zero`;
  // part `part` of `parts` of the columns.
  void (*gemm)(int64_t m, int64_t n, int64_t k, const void* codes, int32_t zero, const void* weights,
               int64_t part, int64_t parts, int32_t* c, int64_t ldc);
  // The same as y_ij = scale_j c_ij + bias_j; bias is nullable.
  void (*gemm_scaled)(int64_t m, int64_t n, int64_t k, const void* codes, int32_t zero, const void* weights,
                      int64_t part, int64_t parts, const float* scale, const float* bias, float* y,
                      int64_t ldy);
};

// Those of this CPU's best instruction set, within what PURSUIT_ISA allows (engine/cpu/rows.h). Sums are
// exact, so results do not depend on it.
const Int8Kernels& int8_kernels();

// Those of a named instruction set; null if this CPU lacks it.
const Int8Kernels* int8_kernels_of(const char* isa);

}  // namespace pursuit
