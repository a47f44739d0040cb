#pragma once
#include <cmath>

#include "cuda/launch.h"

#ifdef PURSUIT_GPU
namespace pursuit::cuda {

// y_i [count, dim] = scale_r codes_r with r = ids[i], or i if ids is null. A kernel cannot throw: the row of
// an id outside of the vocabulary becomes NaN.
static __global__ void dequantize_kernel(const int8_t* codes, const float* scale, int64_t rows,
                                         const int64_t* ids, int64_t count, int64_t dim, float* y) {
  for (int64_t i = blockIdx.y; i < count; i += gridDim.y) {
    const int64_t row = ids ? ids[i] : i;
    const bool known = row >= 0 && row < rows;
    for (int64_t j = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; j < dim;
         j += int64_t(gridDim.x) * blockDim.x)
      y[i * dim + j] = known ? scale[row] * float(codes[row * dim + j]) : NAN;
  }
}

}  // namespace pursuit::cuda
#endif
