#pragma once
#include "cuda/launch.h"

#ifdef PURSUIT_GPU
namespace pursuit::cuda {

// y[i] = sum of row i of x [gridDim.x, cols]; one block a row.
template <class T> __global__ void sum_rows_kernel(const T* x, T* y, int64_t cols) {
  Shared shared;
  float* part = shared.array<float>(32);
  float s = 0;
  for (int64_t j = threadIdx.x; j < cols; j += blockDim.x) s += upcast(x[blockIdx.x * cols + j]);
  s = block_sum(s, part);
  if (threadIdx.x == 0) y[blockIdx.x] = downcast<T>(s);
}

}  // namespace pursuit::cuda
#endif
