#pragma once
#include <cmath>

#include "cuda/launch.h"

// The kernels of singular value thresholding besides matrix products and eigenvectors; see
// engine/ops/singular_value_threshold.cpp for the formulas.
#ifdef PURSUIT_GPU
namespace pursuit::cuda {

// The scale of a matrix whose largest magnitude is top: a power of two that brings it to 1 ... 2, so that
// squares neither overflow nor vanish. NaN if tau < 0 or `bad`, its entries and tau summed times 0, is NaN.
__device__ inline float svt_scale(float top, float bad, float tau) {
  if (!(bad == 0) || tau < 0) return NAN;
  return top > 0 ? std::ldexp(1.0f, min(max(-std::ilogb(top), -120), 120)) : 1.0f;
}

// scaled = a times scale for gridDim.x matrices of `size` entries; 0 where the scale is NaN.
static __global__ void svt_scale_kernel(const float* a, const float* tau, float* scaled, float* scale,
                                        int64_t size) {
  Shared shared;
  float* part = shared.array<float>(32);
  a += blockIdx.x * size;
  scaled += blockIdx.x * size;
  const float t = tau[blockIdx.x];
  float top = 0, bad = t * 0;
  for (int64_t i = threadIdx.x; i < size; i += blockDim.x) {
    top = fmaxf(top, fabsf(a[i]));
    bad += a[i] * 0;
  }
  const float most = block_max(top, part), s = svt_scale(most, block_sum(bad, part), t);
  if (threadIdx.x == 0) scale[blockIdx.x] = s;
  for (int64_t i = threadIdx.x; i < size; i += blockDim.x) scaled[i] = s == s ? a[i] * s : 0;
}

// The fraction of a singular value that remains: 0 up to tau; NaN stays NaN.
__device__ inline float svt_keep(float sigma, float tau) { return sigma <= tau ? 0 : (sigma - tau) / sigma; }

// b [rows, cols] are the singular vectors v [rows, k] multiplied by the scaled matrices, k = rows per matrix.
// sigma (nullable) = |b| / scale, `kept` = v times keep / scale. One warp per row.
static __global__ void svt_keep_kernel(const float* b, const float* v, const float* tau, const float* scale,
                                       float* sigma, float* kept, int64_t rows, int k, int64_t cols) {
  const int64_t row = blockIdx.x * int64_t(blockDim.x / warp_size) + threadIdx.x / warp_size;
  if (row >= rows) return;
  const int lane = int(threadIdx.x) % warp_size;
  float squares = 0;
  for (int64_t i = lane; i < cols; i += warp_size) squares += b[row * cols + i] * b[row * cols + i];
  const float unit = scale[row / k], s = sqrtf(warp_sum(squares)) / unit;
  if (sigma && lane == 0) sigma[row] = s;
  const float f = svt_keep(s, tau[row / k]) / unit;
  for (int i = lane; i < k; i += warp_size) kept[row * k + i] = f * v[row * k + i];
}

// The inner factors of the gradient, one block per matrix: c [k, k] becomes F o (c + c^T) / 2, kept [k, k] is
// v times keep, and dtau (nullable) is -sum over sigma_i > tau of c_ii / sigma_i.
static __global__ void svt_weights_kernel(float* c, const float* v, const float* sigma, const float* tau,
                                          const float* scale, float* kept, float* dtau, int k) {
  Shared shared;
  float* part = shared.array<float>(32);
  c += blockIdx.x * int64_t(k) * k;
  v += blockIdx.x * int64_t(k) * k;
  kept += blockIdx.x * int64_t(k) * k;
  sigma += blockIdx.x * int64_t(k);
  const float t = tau[blockIdx.x], unit = scale[blockIdx.x];
  float total = 0;
  for (int i = int(threadIdx.x); i < k; i += int(blockDim.x))
    if (!(sigma[i] <= t)) total -= c[i * k + i] / (sigma[i] * unit);
  total = block_sum(total, part);
  if (dtau && threadIdx.x == 0) dtau[blockIdx.x] = total;
  for (int e = int(threadIdx.x); e < k * k; e += int(blockDim.x)) {
    const int i = e / k, j = e % k;
    kept[e] = svt_keep(sigma[i], t) * v[e];
    if (i > j) continue;
    const bool i_below = sigma[i] <= t, j_below = sigma[j] <= t;
    const float si = sigma[i] * unit, sj = sigma[j] * unit;
    float factor = 0;
    if (!i_below && !j_below)
      factor = t * unit / si / sj / (si + sj);
    else if (!i_below)
      factor = svt_keep(sigma[i], t) / (si - sj) / (si + sj);
    else if (!j_below)
      factor = svt_keep(sigma[j], t) / (sj - si) / (si + sj);
    c[i * k + j] = c[j * k + i] = factor * (c[i * k + j] + c[j * k + i]) / 2;
  }
}

// Copies the matrices of `size` entries whose tau is 0.
static __global__ void svt_whole_kernel(const float* from, const float* tau, float* to, int64_t size) {
  if (tau[blockIdx.x] != 0) return;
  for (int64_t i = threadIdx.x; i < size; i += blockDim.x)
    to[blockIdx.x * size + i] = from[blockIdx.x * size + i];
}

}  // namespace pursuit::cuda
#endif
