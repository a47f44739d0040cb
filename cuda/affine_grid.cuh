#pragma once
#include <cmath>

#include "cuda/device.h"
#include "engine/sizes/affine_grid.h"

// Rounding to the grid of a quantised activation, with the bits of Int8Kernels::fake_quantize.
#ifdef PURSUIT_GPU
namespace pursuit::cuda {

// q - zero of the code q that x has on the grid; NaN stays NaN.
__device__ inline float steps_of(float x, AffineGrid grid) {
  const float low = float(-grid.zero), high = float(grid.levels - grid.zero);
  const float t = x / grid.step, raised = t < low ? low : t;
  return rintf(raised > high ? high : raised);
}
__device__ inline float rounded(float x, AffineGrid grid) { return grid.step * steps_of(x, grid); }

}  // namespace pursuit::cuda
#endif
