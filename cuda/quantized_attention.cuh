#pragma once
#include "cuda/affine_grid.cuh"
#include "cuda/attention_rows.cuh"
#include "cuda/workspace.h"

// Attention whose tensors are on grids. One warp per row without tensor cores, as in attention_rows.cuh: a
// row's scores are rounded before its softmax and its probabilities after, so a row has to be whole.
#ifdef PURSUIT_GPU
namespace pursuit::cuda {

// The grids of the projections, and of what is between them.
struct GridsOfAttention {
  AffineGrid first, second, third, scores, probabilities;

  __device__ AffineGrid of_part(int64_t part) const { return part == 0 ? first : part == 1 ? second : third; }
};

// to = x [rows, parts, width], each part on its grid.
static __global__ void round_parts_kernel(const float* x, float* to, int64_t rows, int parts, int64_t width,
                                          GridsOfAttention grids) {
  for (int64_t i = blockIdx.y; i < rows * parts; i += gridDim.y) {
    const AffineGrid grid = grids.of_part(i % parts);
    for (int64_t j = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; j < width;
         j += int64_t(gridDim.x) * blockDim.x)
      to[i * width + j] = rounded(x[i * width + j], grid);
  }
}

// out [B, n, heads, d] of projections that are rounded already.
static __global__ void quantized_attention_kernel(const float* qkv, float* out, AttentionShape a,
                                                  GridsOfAttention grids) {
  const int head = int(blockIdx.x) / a.n, row = int(blockIdx.x) % a.n, end = a.causal ? row + 1 : a.n;
  const float* q = a.queries(qkv, head).at(row);
  const MatrixRows<const float> k = a.keys(qkv, head), v = a.values(qkv, head);
  Shared shared;
  float *p = shared.array<float>(a.n), *sum = zero_row(shared, a.d);  // p: scores, then probabilities

  float most = -FLT_MAX, total = 0;
  for (int j = 0; j < end; ++j) {
    const float s = rounded(a.scale * row_dot(q, k.at(j), a.d), grids.scores);
    if (threadIdx.x == 0) p[j] = s;
    most = fmaxf(most, s);
  }
  __syncwarp();
  for (int j = int(threadIdx.x); j < end; j += warp_size) {
    p[j] = expf(p[j] - most);
    total += p[j];
  }
  total = warp_sum(total);
  for (int j = int(threadIdx.x); j < end; j += warp_size) {
    const float share = p[j] / total;
    p[j] = rounded(a.clips() ? a.clip(share) : share, grids.probabilities);
  }
  __syncwarp();
  for (int j = 0; j < end; ++j) add_row(sum, p[j], v.at(j), a.d);
  store_row(a.rows(out, head, 0, 1).at(row), sum, 1, a.d);
}

// out [batch, n, heads, d] of qkv [batch, n, parts, heads, d].
inline void quantized_attention(const float* qkv, float* out, int64_t batch, const AttentionShape& a,
                                const GridsOfAttention& grids) {
  const int64_t rows = batch * a.n, width = int64_t(a.heads) * a.d;
  const Workspace<float> on_grid(rows * a.parts * width);
  launch<round_parts_kernel>(by_rows(rows * a.parts, width), qkv, on_grid.data(), rows, a.parts, width,
                             grids);
  launch<quantized_attention_kernel>(
      {unsigned(rows * a.heads), warp_size, shared_size<float>(a.n) + shared_size<float>(a.d)},
      on_grid.data(), out, a, grids);
}

}  // namespace pursuit::cuda
#endif
