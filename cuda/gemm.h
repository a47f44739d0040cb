#pragma once
#include <cstdint>

#include "engine/core/dtype.h"

// Matrix products on the GPU, by cuBLASLt:
//
//   D = alpha op(A) op(B) + beta C + bias        op(A) [m, k], op(B) [k, n], C and D [m, n], bias [n]
//
// Everything is row-major: element (i, j) of a matrix is p[i * ld + j]; with `ta` A is stored as [k, m], with
// `tb` B is stored as [n, k]. The library counts column-major: what is M to us is M^T to it, in the same
// memory. So it is asked for D^T = op(B)^T op(A)^T: the factors change places, m and n do, and nothing is
// transposed. Its bias, one number for each row of D^T, is ours, one for each column of D; and its "bias
// gradient from B", the sum of its second factor over k, is the sum of our first one: row_sums.
namespace pursuit::cuda {

struct Gemm {
  DType factors = DType::f32;  // type of A, B and bias: f32 or bf16
  DType result = DType::f32;   // type of C, D and row_sums: that of the factors, or f32
  int64_t m = 0, n = 0, k = 0;
  const void* a = nullptr;
  int64_t lda = 0;
  bool ta = false;
  const void* b = nullptr;
  int64_t ldb = 0;
  bool tb = false;
  void* d = nullptr;
  int64_t ldd = 0;
  const void* c = nullptr;  // null: none; may be d; not read where beta = 0
  int64_t ldc = 0;
  float alpha = 1, beta = 1;
  const void* bias = nullptr;  // added to every row of D; batch 1 only
  void* row_sums = nullptr;  // [m], is given op(A)'s sums over k; only with ta, lda = m, batch 1 and no bias
  int64_t batch = 1;
  int64_t stride_a = 0, stride_b = 0, stride_c = 0, stride_d = 0;  // elements from one matrix to the next
};

// On this thread's current stream. Sums are f32. f32 factors are exact unless PURSUIT_GEMM has the word tf32,
// which rounds them to 10 bits of mantissa, for many times the speed.
//
// The first product of a kind (shapes, types, alignment) asks the library for an algorithm, which all later
// ones take, the same in every run. With the word timed (PURSUIT_GEMM=tf32,timed) the library's first
// candidates are timed instead, and the last bits of results may differ from run to run.
void gemm(const Gemm& g);

}  // namespace pursuit::cuda
