#pragma once
#include <cstdint>

#include "engine/core/dtype.h"

// cuBLASLt for row-major matrices:
//
//   D = alpha op(A) op(B) + beta C + bias        op(A) [m, k], op(B) [k, n], C and D [m, n], bias [n]
//
// Element (i, j) of a matrix is p[i * ld + j]; with `ta` A is stored as [k, m], with `tb` B is stored as [n,
// k]. The library is column-major: our M is its M^T, in the same memory. So it computes D^T = op(B)^T
// op(A)^T: the operands are swapped, and so are m and n; nothing is transposed. Its bias, one number per row
// of D^T, is ours, one per column of D; its "bias gradient from B", the sum of its second operand over k, is
// that of our first: row_sums.
namespace pursuit::cuda {

struct Gemm {
  DType factors = DType::f32;  // dtype of A, B and bias: f32, bf16 or i8
  DType result = DType::f32;   // dtype of C, D and row_sums: as the operands, or f32; i32 for i8
  int64_t m = 0, n = 0, k = 0;
  const void* a = nullptr;
  int64_t lda = 0;
  bool ta = false;
  const void* b = nullptr;
  int64_t ldb = 0;
  bool tb = false;
  void* d = nullptr;
  int64_t ldd = 0;
  const void* c = nullptr;  // null: none; may be d; not read if beta = 0
  int64_t ldc = 0;
  float alpha = 1, beta = 1;
  const void* bias = nullptr;  // added to every row of D; batch 1 only
  void* row_sums = nullptr;    // [m], receives op(A) summed over k; only with ta, lda = m, batch 1, no bias
  int64_t batch = 1;
  int64_t stride_a = 0, stride_b = 0, stride_c = 0, stride_d = 0;  // elements from one matrix to the next
};

// Runs on this thread's current stream, with f32 accumulation. f32 operands are exact unless PURSUIT_GEMM
// contains the word tf32, which rounds them to 10 mantissa bits and is many times faster.
//
// Products of i8 are exact. They are D = A op(B) with B stored as [n, k], without bias; the library wants n,
// k and all ld to be multiples of 4.
//
// The first product of a kind (shapes, dtypes, alignment) asks the library for an algorithm, which all later
// ones use; it is the same in every run. With the word timed (PURSUIT_GEMM=tf32,timed) the library's first
// candidates are timed instead, and the last bits of results may differ from run to run. PURSUIT_GEMM_FILE
// names a file to which timed choices are added and from which later runs, timed or not, take theirs.
void gemm(const Gemm& g);

}  // namespace pursuit::cuda
