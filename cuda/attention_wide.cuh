#pragma once
#include "cuda/attention.cuh"

// Attention for heads wider than the tiles of attention.cuh: one warp per row; slow, but works for any width.
#ifdef PURSUIT_GPU
namespace pursuit::cuda {

// The dot product of two rows, distributed over the lanes; all lanes get the result.
template <class T> __device__ float row_dot(const T* x, const T* y, int d) {
  float sum = 0;
  for (int c = int(threadIdx.x); c < d; c += warp_size) sum += upcast(x[c]) * upcast(y[c]);
  return warp_sum(sum);
}
// sum += factor x; each lane handles its own numbers.
template <class T> __device__ void add_row(float* sum, float factor, const T* x, int d) {
  for (int c = int(threadIdx.x); c < d; c += warp_size) sum[c] += factor * upcast(x[c]);
}
template <class T> __device__ void store_row(T* y, const float* sum, float factor, int d) {
  for (int c = int(threadIdx.x); c < d; c += warp_size) y[c] = downcast<T>(factor * sum[c]);
}
__device__ inline float* zero_row(Shared& shared, int d) {
  float* sum = shared.array<float>(d);
  for (int c = int(threadIdx.x); c < d; c += warp_size) sum[c] = 0;
  return sum;
}

// As attention_kernel; a block is one warp and computes one row.
template <class T>
__global__ void attention_wide_kernel(const T* qkv, T* out, float2* stats, AttentionShape a) {
  const int head = int(blockIdx.x) / a.n, row = int(blockIdx.x) % a.n, end = a.causal ? row + 1 : a.n;
  const T* q = a.queries(qkv, head).at(row);
  const MatrixRows<const T> k = a.keys(qkv, head), v = a.values(qkv, head);
  const float factor = a.scale * log2_e;
  const auto score = [&](int j) { return row_dot(q, k.at(j), a.d); };
  Shared shared;
  float* sum = zero_row(shared, a.d);

  float most = -FLT_MAX, total = 0;
  for (int j = 0; j < end; ++j) {
    const float s = score(j) * factor, next = fmaxf(most, s);
    total = total * power_of_2(most - next) + power_of_2(s - next);
    most = next;
  }
  const RowGradient weights{total == 0 ? 0 : most, total == 0 ? 0 : 1 / total};
  for (int j = 0; j < end; ++j) {
    const float p = weights.p(score(j), factor);
    add_row(sum, a.clips() ? a.clip(p) : p, v.at(j), a.d);
  }
  store_row(a.rows(out, head, 0, 1).at(row), sum, 1, a.d);
  if (threadIdx.x == 0) stats[blockIdx.x] = make_float2(weights.most, weights.inverse);
}

// rows [B, heads, n], one per block.
template <class T> __global__ void attention_wide_dots_kernel(const T* qkv, const T* go, const float2* stats,
                                                              RowGradient* rows, AttentionShape a) {
  const int head = int(blockIdx.x) / a.n, row = int(blockIdx.x) % a.n, end = a.causal ? row + 1 : a.n;
  const T *q = a.queries(qkv, head).at(row), *g = a.rows(go, head, 0, 1).at(row);
  const MatrixRows<const T> k = a.keys(qkv, head), v = a.values(qkv, head);
  RowGradient weights{stats[blockIdx.x].x, stats[blockIdx.x].y};
  for (int j = 0; j < end; ++j) {
    const float p = weights.p(row_dot(q, k.at(j), a.d), a.scale * log2_e), dp = row_dot(g, v.at(j), a.d);
    weights.dot += p * (a.clips() ? dp * a.slope(p) : dp);
  }
  if (threadIdx.x == 0) rows[blockIdx.x] = weights;
}

// gx; each block computes one row of a head in all its parts.
template <class T> __global__ void attention_wide_gradient_kernel(const T* qkv, const T* go,
                                                                  const RowGradient* rows, T* gx,
                                                                  AttentionShape a) {
  const int head = int(blockIdx.x) / a.n, row = int(blockIdx.x) % a.n;
  const MatrixRows<const T> q = a.queries(qkv, head), k = a.keys(qkv, head), v = a.values(qkv, head),
                            g = a.rows(go, head, 0, 1);
  Shared shared;
  float *gv = zero_row(shared, a.d), *gk = zero_row(shared, a.d);
  float* gq = a.parts == 2 ? gk : zero_row(shared, a.d);
  // p and ds for query i and key j.
  const auto gradient = [&](int i, int j, float& p, float& ds) {
    const RowGradient weights = rows[int64_t(head) * a.n + i];
    p = weights.p(row_dot(q.at(i), k.at(j), a.d), a.scale * log2_e);
    const float dp = row_dot(g.at(i), v.at(j), a.d);
    ds = p * ((a.clips() ? dp * a.slope(p) : dp) - weights.dot);
  };
  float p, ds;
  for (int j = 0; j < (a.causal ? row + 1 : a.n); ++j) {
    gradient(row, j, p, ds);
    add_row(gq, ds, k.at(j), a.d);
  }
  for (int i = a.causal ? row : 0; i < a.n; ++i) {
    gradient(i, row, p, ds);
    add_row(gk, ds, q.at(i), a.d);
    add_row(gv, a.clips() ? a.clip(p) : p, g.at(i), a.d);
  }
  store_row(a.keys(gx, head).at(row), gk, a.scale, a.d);
  store_row(a.values(gx, head).at(row), gv, 1, a.d);
  if (a.parts == 3) store_row(a.queries(gx, head).at(row), gq, a.scale, a.d);
}

template <class T>
void attention_wide_forward(const T* qkv, T* out, float2* stats, const AttentionShape& a, int64_t batch) {
  launch<attention_wide_kernel<T>>({unsigned(batch * a.heads * a.n), warp_size, shared_size<float>(a.d)}, qkv,
                                   out, stats, a);
}

// rows: scratch memory [batch, heads, n].
template <class T> void attention_wide_backward(const T* qkv, const T* go, const float2* stats,
                                                RowGradient* rows, T* gx, const AttentionShape& a,
                                                int64_t batch) {
  const unsigned blocks = unsigned(batch * a.heads * a.n);
  launch<attention_wide_dots_kernel<T>>({blocks, warp_size}, qkv, go, stats, rows, a);
  launch<attention_wide_gradient_kernel<T>>({blocks, warp_size, a.parts * shared_size<float>(a.d)}, qkv, go,
                                            rows, gx, a);
}

}  // namespace pursuit::cuda
#endif
