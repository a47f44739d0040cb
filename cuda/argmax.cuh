#pragma once
#include "cuda/row.cuh"

#ifdef PURSUIT_GPU
namespace pursuit::cuda {

// A sort key: larger for a larger number, and for the earlier of equal ones; NaN is the largest. The upper
// half has the number's bits in an order-preserving form, the lower half counts down the columns.
__device__ inline uint64_t rank_of(float v, int64_t column) {
  const uint32_t bits = __float_as_uint(v + 0.0f);  // -0 + 0 is 0
  const uint32_t order = v != v ? ~0u : bits >> 31 ? ~bits : bits | 0x80000000u;
  return uint64_t(order) << 32 | (~uint32_t(column));
}

// y[i] = argmax of row i, the first of ties; cols < 2^32.
template <class Team, class T>
__global__ void argmax_kernel(const T* x, int64_t* y, int64_t n, int64_t cols) {
  const Team team(cols);
  for (int64_t i = team.first(); i < n; i += team.step()) {
    const auto row = team.read(x + i * cols);
    uint64_t best = 0;
    team.each([&](int64_t j, float v) { best = max(best, rank_of(v, j)); }, row);
    best = team.reduce(best, [](uint64_t a, uint64_t b) { return max(a, b); });
    if (team.leads()) y[i] = ~uint32_t(best);
  }
}

}  // namespace pursuit::cuda
#endif
