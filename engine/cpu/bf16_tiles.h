#pragma once
#include <cstdint>

#include "engine/cpu/rows.h"

// bf16 matrix products in register tiles, by AVX-512's vdpbf16ps, which adds the products of two pairs of
// bf16 numbers to an f32 number, or by AMX's tdpbf16ps, which does so for 16 x 16 sums and 16 pairs each.
// Matrices are row-major, ld* are row strides in elements; op(a) is m x k, op(b) k x n; m, n, k > 0.
// Subnormal numbers count as zero, as the instructions define.
namespace pursuit {

struct Bf16Tiles {
  const char* isa;  // "avx512" or "amx"

  // C = alpha op(A) op(B) + beta C. A transposed A is first packed into `workspace` of workspace_size(ta, m,
  // k) numbers.
  int64_t (*workspace_size)(bool ta, int64_t m, int64_t k);
  void (*gemm)(bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha, const uint16_t* a, int64_t lda,
               const uint16_t* b, int64_t ldb, float beta, float* c, int64_t ldc, uint32_t* workspace);

  // A right operand packed once for many products c = alpha a op(b) + beta c: see RowKernels::pack
  // (engine/cpu/rows.h). One number of `to` is a pair along the inner dimension; a product with fewer than
  // its k rows takes an even number of them.
  int64_t (*packed_size)(int64_t n, int64_t k);
  void (*pack)(bool tb, int64_t n, int64_t k, const uint16_t* b, int64_t ldb, int64_t part, int64_t parts,
               uint32_t* to);
  void (*gemm_packed)(int64_t m, int64_t n, int64_t k, float alpha, const uint16_t* a, int64_t lda,
                      Packed<uint32_t> b, float beta, float* c, int64_t ldc);

  // The same with C rounded to bf16, for inner dimensions up to max_depth: longer sums are accumulated in
  // memory, as f32.
  int64_t max_depth;
  void (*gemm_rounded)(bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha, const uint16_t* a,
                       int64_t lda, const uint16_t* b, int64_t ldb, float beta, uint16_t* c, int64_t ldc,
                       uint32_t* workspace);
  void (*gemm_packed_rounded)(int64_t m, int64_t n, int64_t k, float alpha, const uint16_t* a, int64_t lda,
                              Packed<uint32_t> b, float beta, uint16_t* c, int64_t ldc);

  // As RowKernels::few_rows.
  void (*few_rows)(int64_t m, int64_t n, int64_t k, const uint16_t* x, int64_t ldx, const uint16_t* w,
                   int64_t ldw, float* y, int64_t ldy);

  // As RowKernels::multiply_adds, of bf16 numbers.
  int64_t (*multiply_adds)(int64_t rounds);
};

// AMX's where it is chosen (engine/cpu/amx.h), else AVX-512's; null if the CPU lacks the instruction or
// PURSUIT_ISA selects an older one. Products of bf16 then widen their factors to f32.
const Bf16Tiles* bf16_tiles();

// Those of a named instruction set; null if this CPU lacks it.
const Bf16Tiles* bf16_tiles_of(const char* isa);

}  // namespace pursuit
