#pragma once
#include <cstdint>

namespace pursuit {

// Eigendecomposition of up to `eigen_lanes` symmetric matrices at once on one thread, for n of tens to a
// hundred, where LAPACK spends its time in scalar recurrences: Householder tridiagonalisation of one matrix
// after another, then implicit QL (Golub & Van Loan 8.3) of all of them with one matrix in each vector lane,
// its rotations applied to the eigenvectors matrix by matrix.
template <class T> inline constexpr int64_t eigen_lanes = 64 / int64_t(sizeof(T));

// The row stride of a matrix of n rows: whole vectors.
template <class T> int64_t eigen_stride(int64_t n) {
  return (n + eigen_lanes<T> - 1) / eigen_lanes<T> * eigen_lanes<T>;
}

// a: count <= eigen_lanes matrices [n, eigen_stride(n)] one behind the other, 64-byte aligned, zero in the
// padding, entries finite and of a magnitude whose square neither overflows nor vanishes. Row j of matrix k
// becomes the eigenvector of values[k * n + j]; values come in no order. The error of a value is a few ulp of
// the largest. False if an iteration did not converge.
bool batch_eigen(float* a, int64_t count, int64_t n, float* values);
bool batch_eigen(double* a, int64_t count, int64_t n, double* values);

}  // namespace pursuit
