#pragma once
#include "cuda/attention.cuh"

// Attention by one warp per row, without tensor cores; slow, but it works for every width and every number of rows: for
// heads wider than the tiles of attention.cuh, and for queries of other rows than the keys, with a mask, as where a
// sequence is decoded step by step.
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

// The operands. In self-attention q and kv are the packed projections.
template <class T> struct RowAttention {
  const T *q, *kv;  // queries: part 0 of q [B, m, parts, heads, d]; keys and values: the last two parts of kv
  const float* mask;    // [B, m, n], added to the scores, or null
  AttentionShape a;     // of kv [B, n, parts, heads, d]
  AttentionShape of_q;  // of q: m rows in place of n

  // Where part 0 of q is the keys', as in self-attention with two parts.
  __device__ bool keys_are_queries() const { return of_q.parts == 2; }
  __device__ int keys_of(int row) const { return a.causal ? row + 1 : a.n; }
  // As the result [B, m, heads, d].
  template <class U> __device__ MatrixRows<U> as_result(U* x, int head) const {
    return of_q.rows(x, head, 0, 1);
  }

  // The softmax's weight of key j for query i.
  __device__ float weight(const RowGradient& softmax, const T* query, const T* key, int head, int i,
                          int j) const {
    return softmax.p(score(query, key, head, i, j), 1);
  }
  // Their score, in powers of 2.
  __device__ float score(const T* query, const T* key, int head, int i, int j) const {
    const float s = row_dot(query, key, a.d) * a.scale;
    return log2_e * (mask ? s + mask[(int64_t(head / a.heads) * of_q.n + i) * a.n + j] : s);
  }
  // The gradient of the mapped weight p, given that of its product with the value: before `dot` is taken off.
  __device__ float slope(float p, float dp) const { return a.clips() ? dp * a.slope(p) : dp; }
  __device__ float mapped(float p) const { return a.clips() ? a.clip(p) : p; }
};

// out [B, m, heads, d] = map(softmax(scale q k^T + mask)) v and stats [B, heads, m] as attention_kernel; a block is one
// warp and computes one row.
template <class T> __global__ void attention_rows_kernel(RowAttention<T> op, T* out, float2* stats) {
  const AttentionShape& a = op.a;
  const int head = int(blockIdx.x) / op.of_q.n, row = int(blockIdx.x) % op.of_q.n, end = op.keys_of(row);
  const T* q = op.of_q.queries(op.q, head).at(row);
  const MatrixRows<const T> k = a.keys(op.kv, head), v = a.values(op.kv, head);
  Shared shared;
  float* sum = zero_row(shared, a.d);

  float most = -FLT_MAX, total = 0;
  for (int j = 0; j < end; ++j) {
    const float s = op.score(q, k.at(j), head, row, j), next = fmaxf(most, s);
    total = total * power_of_2(most - next) + power_of_2(s - next);
    most = next;
  }
  const RowGradient softmax{total == 0 ? 0 : most, total == 0 ? 0 : 1 / total};
  for (int j = 0; j < end; ++j)
    add_row(sum, op.mapped(op.weight(softmax, q, k.at(j), head, row, j)), v.at(j), a.d);
  store_row(op.as_result(out, head).at(row), sum, 1, a.d);
  if (threadIdx.x == 0) stats[blockIdx.x] = make_float2(softmax.most, softmax.inverse);
}

// gq, unless keys are also queries, and for the kernel below rows [B, heads, m]; one row per block. `out`: the result,
// whose product with its gradient is that of the weights with theirs, or null where weights are clipped.
template <class T> __global__ void attention_rows_query_gradient_kernel(RowAttention<T> op, const T* out,
                                                                        const T* go, const float2* stats,
                                                                        RowGradient* rows, T* gq) {
  const AttentionShape& a = op.a;
  const int head = int(blockIdx.x) / op.of_q.n, row = int(blockIdx.x) % op.of_q.n, end = op.keys_of(row);
  const T *q = op.of_q.queries(op.q, head).at(row), *g = op.as_result(go, head).at(row);
  const MatrixRows<const T> k = a.keys(op.kv, head), v = a.values(op.kv, head);
  RowGradient softmax{stats[blockIdx.x].x, stats[blockIdx.x].y};
  const auto weight = [&](int j) { return op.weight(softmax, q, k.at(j), head, row, j); };
  if (out) softmax.dot = row_dot(g, op.as_result(out, head).at(row), a.d);
  for (int j = 0; !out && j < end; ++j) {
    const float p = weight(j);
    softmax.dot += p * op.slope(p, row_dot(g, v.at(j), a.d));
  }
  if (threadIdx.x == 0) rows[blockIdx.x] = softmax;
  if (op.keys_are_queries()) return;
  Shared shared;
  float* sum = zero_row(shared, a.d);
  for (int j = 0; j < end; ++j) {
    const float p = weight(j);
    add_row(sum, p * (op.slope(p, row_dot(g, v.at(j), a.d)) - softmax.dot), k.at(j), a.d);
  }
  store_row(op.of_q.queries(gq, head).at(row), sum, a.scale, a.d);
}

// gkv: one row of keys and values per block, where keys are also queries with both their gradients.
template <class T> __global__ void attention_rows_key_gradient_kernel(RowAttention<T> op, const T* go,
                                                                      const RowGradient* rows, T* gkv) {
  const AttentionShape& a = op.a;
  const int head = int(blockIdx.x) / a.n, row = int(blockIdx.x) % a.n;
  const MatrixRows<const T> q = op.of_q.queries(op.q, head), g = op.as_result(go, head),
                            k = a.keys(op.kv, head), v = a.values(op.kv, head);
  Shared shared;
  float *gk = zero_row(shared, a.d), *gv = zero_row(shared, a.d);
  // The weight p of key j for query i, and their score's gradient ds.
  const auto gradient = [&](int i, int j, float& p, float& ds) {
    const RowGradient softmax = rows[int64_t(head) * op.of_q.n + i];
    p = op.weight(softmax, q.at(i), k.at(j), head, i, j);
    ds = p * (op.slope(p, row_dot(g.at(i), v.at(j), a.d)) - softmax.dot);
  };
  float p, ds;
  for (int i = a.causal ? row : 0; i < op.of_q.n; ++i) {
    gradient(i, row, p, ds);
    add_row(gk, ds, q.at(i), a.d);
    add_row(gv, op.mapped(p), g.at(i), a.d);
  }
  for (int j = 0; op.keys_are_queries() && j < op.keys_of(row); ++j) {
    gradient(row, j, p, ds);
    add_row(gk, ds, k.at(j), a.d);
  }
  store_row(a.keys(gkv, head).at(row), gk, a.scale, a.d);
  store_row(a.values(gkv, head).at(row), gv, 1, a.d);
}

template <class T>
void attention_rows_forward(const RowAttention<T>& op, T* out, float2* stats, int64_t batch) {
  launch<attention_rows_kernel<T>>(
      {unsigned(batch * op.a.heads * op.of_q.n), warp_size, shared_size<float>(op.a.d)}, op, out, stats);
}

// gq and gkv are laid out as q and kv. rows: scratch memory [batch, heads, m].
template <class T> void attention_rows_backward(const RowAttention<T>& op, const T* out, const T* go,
                                                const float2* stats, RowGradient* rows, T* gq, T* gkv,
                                                int64_t batch) {
  const unsigned heads = unsigned(batch) * unsigned(op.a.heads);
  launch<attention_rows_query_gradient_kernel<T>>(
      {heads * unsigned(op.of_q.n), warp_size, shared_size<float>(op.a.d)}, op, out, go, stats, rows, gq);
  launch<attention_rows_key_gradient_kernel<T>>(
      {heads * unsigned(op.a.n), warp_size, 2 * shared_size<float>(op.a.d)}, op, go,
      static_cast<const RowGradient*>(rows), gkv);
}

}  // namespace pursuit::cuda
#endif
