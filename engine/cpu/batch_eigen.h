#pragma once
#include <cstdint>

namespace pursuit {

// Eigendecomposition of up to `eigen_lanes` symmetric matrices at once on one thread, for n from tens to a
// hundred, where LAPACK spends its time in scalar recurrences: Householder tridiagonalisation matrix by
// matrix, then implicit QL (Golub & Van Loan 8.3) of all matrices together, one per vector lane, with the
// rotations applied to the eigenvectors matrix by matrix.
template <class T> inline constexpr int64_t eigen_lanes = 64 / int64_t(sizeof(T));

// Row stride of a matrix with n rows: a multiple of the vector width.
template <class T> int64_t eigen_stride(int64_t n) {
  return (n + eigen_lanes<T> - 1) / eigen_lanes<T> * eigen_lanes<T>;
}

// a: count <= eigen_lanes consecutive matrices [n, eigen_stride(n)], 64-byte aligned, with zero padding;
// entries are finite, and their squares neither overflow nor vanish. Row j of matrix k becomes the
// eigenvector of values[k * n + j]; values are not sorted. Their error is a few ulp of the largest one.
// Returns false if an iteration did not converge.
bool batch_eigen(float* a, int64_t count, int64_t n, float* values);
bool batch_eigen(double* a, int64_t count, int64_t n, double* values);

}  // namespace pursuit
