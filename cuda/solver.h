#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

// Singular value decompositions by cuSOLVER: the reference for our own thresholding on a GPU, not meant to be
// fast for many matrices of more than 32 rows or columns, which the library takes one by one.
namespace pursuit::cuda {

// a [batch, m, n], row-major and overwritten, = U diag(s) V^T: s [batch, K] descending, K = min(m, n), and
// the singular vectors as rows, ut [batch, left(), m] and vt [batch, right(), n], the first K those of s.
struct Svd {
  int64_t batch = 0, m = 0, n = 0;
  float *a = nullptr, *s = nullptr, *ut = nullptr, *vt = nullptr;

  int64_t small() const { return std::min(m, n); }
  // Whether the library takes all matrices at once. It then gives every singular vector of either side.
  bool batched() const { return std::max(m, n) <= 32; }
  int64_t left() const { return batched() ? m : small(); }
  int64_t right() const { return batched() ? n : small(); }
};

// Waits for the GPU. Returns what the library says of each matrix: 0, or how many values did not converge.
std::vector<int32_t> svd(const Svd& p);

}  // namespace pursuit::cuda
