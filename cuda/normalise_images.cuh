#pragma once
#include "cuda/launch.h"

#ifdef PURSUIT_GPU
namespace pursuit::cuda {

// Row r of `count`, [width], is the function rows(r) of the column and goes to the pieces of y that
// rows.places(r) names; one warp per row. The arrays in `rows` are indexed in place, as kernel arguments; a
// copy would be in local memory.
template <class Rows, class T>
__global__ void rows_kernel(const __grid_constant__ Rows rows, int64_t count, int64_t width, T* y) {
  const int lane = int(threadIdx.x) % warp_size, warps = int(blockDim.x) / warp_size;
  for (int64_t r = int64_t(blockIdx.x) * warps + int(threadIdx.x) / warp_size; r < count;
       r += int64_t(gridDim.x) * warps) {
    const auto row = rows(r);
    const auto [first, length, stride] = rows.places(r);
    T* piece = y + first;
    int64_t begin = 0;
    for (int64_t x = lane; x < width; x += warp_size) {
      for (; x - begin >= length; begin += length) piece += stride;  // cheaper than a division
      piece[x - begin] = downcast<T>(row(x));
    }
  }
}

}  // namespace pursuit::cuda
#endif
