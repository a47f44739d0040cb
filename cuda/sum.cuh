#pragma once
#include <algorithm>

#include "cuda/launch.h"
#include "cuda/workspace.h"

#ifdef PURSUIT_GPU
namespace pursuit::cuda {

// y [rows, parts]: sums of parts of the rows of x [rows, cols]; block (i, p) computes part p of row i.
template <class T, class S> __global__ void sums_of_rows_kernel(const T* x, S* y, int64_t cols) {
  Shared shared;
  float* part = shared.array<float>(32);
  const int64_t parts = gridDim.y, p = blockIdx.y;
  const T* row = x + blockIdx.x * cols;
  float s = 0;
  for (int64_t j = cols * p / parts + threadIdx.x; j < cols * (p + 1) / parts; j += blockDim.x)
    s += upcast(row[j]);
  s = block_sum(s, part);
  if (threadIdx.x == 0) y[blockIdx.x * parts + p] = downcast<S>(s);
}

// y [rows] = the row sums of x [rows, cols]. A few long rows are split into parts, which a second launch
// adds: the same terms in the same order every time.
template <class T> void sums_of_rows(const T* x, T* y, int64_t rows, int64_t cols) {
  constexpr int64_t enough_blocks = 528;   // 4 for each of an H100's 132 multiprocessors
  constexpr int64_t shortest_part = 8192;  // 32 numbers per thread
  if (rows == 0) return;
  const int64_t parts = std::max<int64_t>(1, std::min(enough_blocks / rows, cols / shortest_part));
  const auto grid = [&](int64_t y_blocks) {
    return Grid{{unsigned(rows), unsigned(y_blocks)}, 256, shared_size<float>(32)};
  };
  if (parts == 1) return launch<sums_of_rows_kernel<T, T>>(grid(1), x, y, cols);
  const Workspace<float> part(rows * parts);
  launch<sums_of_rows_kernel<T, float>>(grid(parts), x, part.data(), cols);
  launch<sums_of_rows_kernel<float, T>>(grid(1), static_cast<const float*>(part.data()), y, parts);
}

}  // namespace pursuit::cuda
#endif
