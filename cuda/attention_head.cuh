#pragma once
#include "cuda/attention.cuh"

// Attention's gradient in one kernel, for heads that fit whole into a block's shared memory.
#ifdef PURSUIT_GPU
namespace pursuit::cuda {

constexpr int head_warps = 8;  // with their registers, a multiprocessor holds one block

// gx [B, n, 3, heads, d] from q, k, v, the result `out` and its gradient `go`; a block makes one head. With p
// = softmax and dp = go v^T: dv = p^T go, dq = scale ds k and dk = scale ds^T q, where ds = p (dp - dot) and
// dot = sum_j p_j dp_j = go out, row by row. `panel`: n rounded up to whole query strips.
template <class T, int D> __global__ void __launch_bounds__(head_warps* warp_size, 1)
    attention_head_gradient_kernel(const T* qkv, const T* out, const T* go, const float2* stats, T* gx,
                                   AttentionShape a, int panel) {
  constexpr int stride = row_stride<T, D>;
  const int head = int(blockIdx.x), warp = warp_index();
  const MatrixRows<const T> given[] = {a.queries(qkv, head), a.keys(qkv, head), a.values(qkv, head),
                                       a.rows(go, head, 0, 1)};
  Shared shared;
  T* const q = shared.array<T>(4 * panel * stride);
  RowGradient* const rows = shared.array<RowGradient>(panel);
  T* const own = shared.array<T>(head_warps * 16 * stride) + warp * 16 * stride;
  const T *k = q + panel * stride, *v = k + panel * stride, *g = v + panel * stride;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    load_rows<D>(q + i * panel * stride, given[i], 0, panel, int(threadIdx.x), int(blockDim.x));
  close_copies();
  wait_copies<0>();
  __syncthreads();

  const float factor = a.scale * log2_e;
  for (int first = warp * 16; first < panel; first += head_warps * 16) {
    float dot[2];
    row_dots<1>(dot, a.rows(out, head, 0, 1), MatrixRows<const T>{g, stride, panel, D}, first);
    if (lane_index() % 4 != 0) continue;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = first + strip_row(r);
      const float2 saved = row < a.n ? a.of_head(stats, head)[row] : make_float2(0, 0);
      rows[row] = {saved.x, saved.y, dot[r]};
    }
  }
  __syncthreads();

  using Query = QueryStrip<T, D>;
  for (int first = warp * Query::rows; first < a.n; first += head_warps * Query::rows) {
    typename Query::Left strip_q, strip_g;
    strip_q.take(q + first * stride);
    strip_g.take(g + first * stride);
    RowGradient row[2 * Query::R];
#pragma unroll
    for (int r = 0; r < 2 * Query::R; ++r) row[r] = rows[first + strip_row(r)];
    TileD gq[Query::R][D / 8];
    const int end = a.causal ? min(a.n, first + Query::rows) : a.n;
    for (int c = 0; c < end; c += chunk) {
      typename Query::Scores p, ds;
      product_with_rows<D>(p, strip_q, k + c * stride);
      product_with_rows<D>(ds, strip_g, v + c * stride);
      for_numbers(p, [&](float& weight, int r, int) { weight = row[r].p(weight, factor); });
      hide(p, 0, first, c, a.n, a.causal);
      for_numbers(ds, p, [&](float& d, float weight, int r, int) { d = weight * (d - row[r].dot); });
      add_product<D>(gq, ds, k + c * stride);
    }
    scale(gq, a.scale);
    store_strip<D>(a.queries(gx, head), first, gq, own);
    __syncwarp();  // lanes end the loop over the last rows at different turns; products want them together
  }

  using Key = KeyStrip<T, D>;
  for (int first = warp * Key::rows; first < a.n; first += head_warps * Key::rows) {
    typename Key::Left strip_k, strip_v;
    strip_k.take(k + first * stride);
    strip_v.take(v + first * stride);
    TileD gk[Key::R][D / 8], gv[Key::R][D / 8];
    for (int c = a.causal ? first : 0; c < a.n; c += chunk) {
      RowGradient col[chunk / 4];
#pragma unroll
      for (int i = 0; i < chunk / 4; ++i) col[i] = rows[c + chunk_col(i)];
      typename Key::Scores p, ds;
      product_with_rows<D>(p, strip_k, q + c * stride);
      product_with_rows<D>(ds, strip_v, g + c * stride);
      for_numbers(p, [&](float& weight, int, int i) { weight = col[i].p(weight, factor); });
      if (a.causal && c < first + Key::rows)
        for_numbers(p, [&](float& weight, int r, int i) {
          if (c + chunk_col(i) < first + strip_row(r)) weight = 0;
        });
      for_numbers(ds, p, [&](float& d, float weight, int, int i) { d = weight * (d - col[i].dot); });
      add_product<D>(gv, p, g + c * stride);
      add_product<D>(gk, ds, q + c * stride);
    }
    scale(gk, a.scale);
    store_strip<D>(a.keys(gx, head), first, gk, own);
    store_strip<D>(a.values(gx, head), first, gv, own);
    __syncwarp();
  }
}

template <class T, int D> int head_panel(int n) {
  constexpr int rows = QueryStrip<T, D>::rows;
  return (n + rows - 1) / rows * rows;
}
template <class T, int D> size_t head_shared(int n) {
  const int panel = head_panel<T, D>(n);
  return shared_size<T>(4 * int64_t(panel) * row_stride<T, D>) + shared_size<RowGradient>(panel) +
         shared_size<T>(head_warps * 16 * row_stride<T, D>);
}

// Whether the kernel is for such heads: in bf16, in the shared memory of an A100's block, unclipped; and
// whether this GPU's blocks have as much.
template <class T, int D> bool fits_head_kernel(int64_t n, int64_t parts, bool clips) {
  if constexpr (!KeyStrip<T, D>::kept) return false;
  return parts == 3 && !clips && n <= 1024 &&
         head_shared<T, D>(int(n)) <= std::min<size_t>(163 * 1024, shared_memory_limit());
}

template <class T, int D> void attention_head_backward(const T* qkv, const T* out, const T* go,
                                                       const float2* stats, T* gx, const AttentionShape& a,
                                                       int64_t batch) {
  launch<attention_head_gradient_kernel<T, D>>(
      {unsigned(batch * a.heads), head_warps * warp_size, head_shared<T, D>(a.n)}, qkv, out, go, stats, gx, a,
      head_panel<T, D>(a.n));
}

}  // namespace pursuit::cuda
#endif
