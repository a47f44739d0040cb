#pragma once
#include <complex>
#include <cstdint>
#include <vector>

#include "engine/core/tensor.h"

namespace pursuit {

// Eigenvalues [n], ascending, of a symmetric row-major matrix with row stride ld, by LAPACK's divide
// and conquer; row j of `a` becomes eigenvector j. Throws if the iteration fails (NaN in the
// matrix).
void symmetric_eigen(float* a, int64_t n, int64_t ld, float* values);
void symmetric_eigen(double* a, int64_t n, int64_t ld, double* values);

// All eigenvalues of a square f64 matrix on the CPU, conjugate pairs adjacent, by LAPACK's QR algorithm. No
// autograd. Throws if the iteration fails (NaN in the matrix).
std::vector<std::complex<double>> eigenvalues(const Tensor& a);

// a = u diag(s) vt for every matrix of a [..., M, N], f32 or (on the CPU) f64: u [..., M, K], s [..., K]
// descending, vt [..., K, N] with K = min(M, N). LAPACK's divide and conquer; cuSOLVER's Jacobi method on a
// GPU. No autograd. Throws if the iteration fails (NaN in the matrix).
struct Svd {
  Tensor u, s, vt;
};
Svd svd(const Tensor& a);

}  // namespace pursuit
