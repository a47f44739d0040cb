#pragma once
#include "cuda/attention_wide.cuh"

// Attention of queries to other rows, with a mask. One warp per row, without tensor cores: for few and short
// rows, as where a sequence is decoded step by step.
#ifdef PURSUIT_GPU
namespace pursuit::cuda {

// q [B, m, heads, d], kv [B, n, 2, heads, d], mask [B, m, n] or null, stats and rows [B, heads, m].
struct CrossAttentionShape {
  int m, n, d, heads;
  float scale;

  template <class T> __device__ MatrixRows<T> queries(T* x, int head) const {
    return {x + (int64_t(head / heads) * m * heads + head % heads) * d, heads * d, m, d};
  }
  // part 0: keys, 1: values
  template <class T> __device__ MatrixRows<T> of_kv(T* x, int head, int part) const {
    return {x + ((int64_t(head / heads) * n * 2 + part) * heads + head % heads) * d, 2 * heads * d, n, d};
  }
  // In powers of 2, scale q k + mask.
  template <class T>
  __device__ float score(const T* q, const T* k, const float* mask, int head, int row, int col) const {
    const float s = row_dot(q, k, d) * scale;
    return log2_e * (mask ? s + mask[(int64_t(head / heads) * m + row) * n + col] : s);
  }
};

// A block is one warp and computes one row of the result.
template <class T> __global__ void cross_attention_kernel(const T* q, const T* kv, const float* mask, T* out,
                                                          float2* stats, CrossAttentionShape a) {
  const int head = int(blockIdx.x) / a.m, row = int(blockIdx.x) % a.m;
  const T* own = a.queries(q, head).at(row);
  const MatrixRows<const T> k = a.of_kv(kv, head, 0), v = a.of_kv(kv, head, 1);
  const auto score = [&](int j) { return a.score(own, k.at(j), mask, head, row, j); };
  Shared shared;
  float* sum = zero_row(shared, a.d);

  float most = -FLT_MAX, total = 0;
  for (int j = 0; j < a.n; ++j) {
    const float s = score(j), next = fmaxf(most, s);
    total = total * power_of_2(most - next) + power_of_2(s - next);
    most = next;
  }
  const RowGradient weights{total == 0 ? 0 : most, total == 0 ? 0 : 1 / total};
  for (int j = 0; j < a.n; ++j) add_row(sum, weights.p(score(j), 1), v.at(j), a.d);
  store_row(a.queries(out, head).at(row), sum, 1, a.d);
  if (threadIdx.x == 0) stats[blockIdx.x] = make_float2(weights.most, weights.inverse);
}

// gq, a row a block, and `rows` for the kernel below.
template <class T>
__global__ void cross_attention_query_gradient_kernel(const T* q, const T* kv, const float* mask, const T* go,
                                                      const float2* stats, RowGradient* rows, T* gq,
                                                      CrossAttentionShape a) {
  const int head = int(blockIdx.x) / a.m, row = int(blockIdx.x) % a.m;
  const T *own = a.queries(q, head).at(row), *g = a.queries(go, head).at(row);
  const MatrixRows<const T> k = a.of_kv(kv, head, 0), v = a.of_kv(kv, head, 1);
  RowGradient weights{stats[blockIdx.x].x, stats[blockIdx.x].y};
  const auto p = [&](int j) { return weights.p(a.score(own, k.at(j), mask, head, row, j), 1); };
  Shared shared;
  float* sum = zero_row(shared, a.d);
  for (int j = 0; j < a.n; ++j) weights.dot += p(j) * row_dot(g, v.at(j), a.d);
  for (int j = 0; j < a.n; ++j) add_row(sum, p(j) * (row_dot(g, v.at(j), a.d) - weights.dot), k.at(j), a.d);
  store_row(a.queries(gq, head).at(row), sum, a.scale, a.d);
  if (threadIdx.x == 0) rows[blockIdx.x] = weights;
}

// gkv; each block computes the rows of one key and its value.
template <class T>
__global__ void cross_attention_key_gradient_kernel(const T* q, const T* kv, const float* mask, const T* go,
                                                    const RowGradient* rows, T* gkv, CrossAttentionShape a) {
  const int head = int(blockIdx.x) / a.n, col = int(blockIdx.x) % a.n;
  const MatrixRows<const T> queries = a.queries(q, head), g = a.queries(go, head);
  const T *k = a.of_kv(kv, head, 0).at(col), *v = a.of_kv(kv, head, 1).at(col);
  Shared shared;
  float *gk = zero_row(shared, a.d), *gv = zero_row(shared, a.d);
  for (int i = 0; i < a.m; ++i) {
    const RowGradient weights = rows[int64_t(head) * a.m + i];
    const float p = weights.p(a.score(queries.at(i), k, mask, head, i, col), 1);
    add_row(gk, p * (row_dot(g.at(i), v, a.d) - weights.dot), queries.at(i), a.d);
    add_row(gv, p, g.at(i), a.d);
  }
  store_row(a.of_kv(gkv, head, 0).at(col), gk, a.scale, a.d);
  store_row(a.of_kv(gkv, head, 1).at(col), gv, 1, a.d);
}

template <class T> void cross_attention_forward(const T* q, const T* kv, const float* mask, T* out,
                                                float2* stats, const CrossAttentionShape& a, int64_t batch) {
  launch<cross_attention_kernel<T>>({unsigned(batch * a.heads * a.m), warp_size, shared_size<float>(a.d)}, q,
                                    kv, mask, out, stats, a);
}

// rows: scratch memory [batch, heads, m].
template <class T> void cross_attention_backward(const T* q, const T* kv, const float* mask, const T* go,
                                                 const float2* stats, RowGradient* rows, T* gq, T* gkv,
                                                 const CrossAttentionShape& a, int64_t batch) {
  const unsigned heads = unsigned(batch) * unsigned(a.heads);
  launch<cross_attention_query_gradient_kernel<T>>(
      {heads * unsigned(a.m), warp_size, shared_size<float>(a.d)}, q, kv, mask, go, stats, rows, gq, a);
  launch<cross_attention_key_gradient_kernel<T>>(
      {heads * unsigned(a.n), warp_size, 2 * shared_size<float>(a.d)}, q, kv, mask, go,
      static_cast<const RowGradient*>(rows), gkv, a);
}

}  // namespace pursuit::cuda
#endif
