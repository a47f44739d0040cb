#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

// Singular value decompositions by cuSOLVER: the reference for our own thresholding on a GPU. Not fast for
// many matrices with more than 32 rows or columns, which the library processes one by one.
namespace pursuit::cuda {

// a [batch, m, n] (row-major, overwritten) = U diag(s) V^T: s [batch, K] descending, K = min(m, n), and the
// singular vectors as rows, ut [batch, left(), m] and vt [batch, right(), n]; the first K belong to s.
struct Svd {
  int64_t batch = 0, m = 0, n = 0;
  float *a = nullptr, *s = nullptr, *ut = nullptr, *vt = nullptr;

  int64_t small() const { return std::min(m, n); }
  // Whether the library processes all matrices at once. It then returns all singular vectors of both sides.
  bool batched() const { return std::max(m, n) <= 32; }
  int64_t left() const { return batched() ? m : small(); }
  int64_t right() const { return batched() ? n : small(); }
};

// Synchronises. Returns the library's status of each matrix: 0, or how many values did not converge.
std::vector<int32_t> svd(const Svd& p);

}  // namespace pursuit::cuda
