#pragma once
#include "cuda/launch.h"

// Principal component pursuit around singular value thresholding, with the dual divided by mu: U = Y / mu =
// tau Y. Matrices have `size` entries; block k of a grid processes matrix active[k].
#ifdef PURSUIT_GPU
namespace pursuit::cuda {

// norms[0] = mean |m|, NaN or infinite if an entry is; norms[1] = |m|_F / mean |m|, 0 for a zero matrix.
static __global__ void pcp_norms_kernel(const float* m, float* norms, int64_t size) {
  Shared shared;
  float* part = shared.array<float>(32);
  m += blockIdx.x * size;
  float sum = 0, squares = 0;
  for (int64_t i = threadIdx.x; i < size; i += blockDim.x) sum += fabsf(m[i]) / float(size);
  const float mean = block_sum(sum, part);
  for (int64_t i = threadIdx.x; mean > 0 && i < size; i += blockDim.x) squares += m[i] / mean * (m[i] / mean);
  squares = block_sum(squares, part);
  if (threadIdx.x > 0) return;
  norms[2 * blockIdx.x] = mean;
  norms[2 * blockIdx.x + 1] = sqrtf(squares);
}

// x [gridDim.x, size] = M - S + U
static __global__ void pcp_input_kernel(const float* m, const float* s, const float* u, const int* active,
                                        float* x, int64_t size) {
  const int64_t at = active[blockIdx.x] * size;
  for (int64_t i = threadIdx.x; i < size; i += blockDim.x)
    x[blockIdx.x * size + i] = m[at + i] - s[at + i] + u[at + i];
}

struct PcpState {
  const float *m, *tau, *norms;  // [batch, size], [batch], [batch, 2]
  float *low_rank, *s, *u;       // [batch, size]; low_rank is written when its matrix stops
  int64_t size;
  float lambda, tolerance;
};

// After l [gridDim.x, size] = D_tau(x): computes S, U, the next x, and residuals[k, step] = |M - L - S|_F /
// |M|_F. A matrix that reached the tolerance in an earlier one of these `steps` is not changed and repeats
// its residual.
static __global__ void pcp_step_kernel(PcpState p, const int* active, const float* l, float* x,
                                       float* residuals, int steps, int step, bool last) {
  Shared shared;
  float* part = shared.array<float>(32);
  const int64_t at = active[blockIdx.x] * p.size;
  const float mean = p.norms[2 * active[blockIdx.x]], norm = p.norms[2 * active[blockIdx.x] + 1];
  const float threshold = p.lambda * p.tau[active[blockIdx.x]];
  residuals += int64_t(blockIdx.x) * steps;
  l += blockIdx.x * p.size;
  x += blockIdx.x * p.size;
  if (step > 0 && residuals[step - 1] <= p.tolerance) {
    if (threadIdx.x == 0) residuals[step] = residuals[step - 1];
    return;
  }
  float squares = 0;
  for (int64_t i = threadIdx.x; i < p.size; i += blockDim.x) {
    const float rest = p.m[at + i] - l[i], v = rest + p.u[at + i];
    const float u = fminf(fmaxf(v, -threshold), threshold), s = v - u, error = (rest - s) / mean;
    p.s[at + i] = s;
    p.u[at + i] = u;
    x[i] = p.m[at + i] - s + u;
    squares += error * error;
  }
  const float residual = sqrtf(block_sum(squares, part)) / norm;
  if (threadIdx.x == 0) residuals[step] = residual;
  if (!last && !(residual <= p.tolerance)) return;
  for (int64_t i = threadIdx.x; i < p.size; i += blockDim.x) p.low_rank[at + i] = l[i];
}

}  // namespace pursuit::cuda
#endif
