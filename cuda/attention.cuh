#pragma once
#include "cuda/attend.cuh"

#ifdef PURSUIT_GPU
namespace pursuit::cuda {

constexpr int chunk = 16;  // columns per step

// Attention on packed projections [B, n, parts, heads, d]: q, k, v, or k, v with keys as queries.
struct AttentionShape {
  int n, d, parts, heads;
  float scale;
  bool causal;
  float gamma, zeta;

  __device__ bool clips() const { return gamma != 0 || zeta != 1; }
  __device__ float stretch(float p) const { return (zeta - gamma) * p + gamma; }
  // The clipped softmax, given the softmax, and its derivative.
  __device__ float clip(float p) const {
    const float y = stretch(p), capped = y > 1 ? 1 : y;
    return capped < 0 ? 0 : capped;
  }
  __device__ float slope(float p) const {
    const float y = stretch(p);
    return y < 0 || y > 1 ? 0 : zeta - gamma;
  }

  // Head b * heads + h of one part of x [B, n, of, heads, d]. B * n is below 2^32: 32-bit products save
  // registers.
  template <class T> __device__ MatrixRows<T> rows(T* x, int head, int part, int of) const {
    const int b = head / heads, h = head % heads, ld = of * heads * d;
    return {x + uint64_t(unsigned(b) * unsigned(n)) * unsigned(ld) + (part * heads + h) * d, ld, n, d};
  }
  // The same for x [B, heads, n].
  template <class T> __device__ T* of_head(T* x, int head) const {
    return x + uint64_t(unsigned(head)) * unsigned(n);
  }
  template <class T> __device__ MatrixRows<T> queries(T* x, int head) const {
    return rows(x, head, 0, parts);
  }
  template <class T> __device__ MatrixRows<T> keys(T* x, int head) const {
    return rows(x, head, parts - 2, parts);
  }
  template <class T> __device__ MatrixRows<T> values(T* x, int head) const {
    return rows(x, head, parts - 1, parts);
  }
};

// Distribution of a head's rows over `groups` blocks, one strip per warp, repeated as often as needed.
struct StripPlan {
  int panel, groups, warps;

  __device__ int head() const { return int(blockIdx.x) / groups; }
  __device__ int group() const { return int(blockIdx.x) % groups; }
  // The rows of the panel that starts at row `from`, clipped at `end`, in whole chunks.
  __device__ int rows(int from, int end) const {
    return min(panel, (end - from + chunk - 1) / chunk * chunk);
  }
};

// A warp's unit of work: a strip of R * 16 rows. As left operands they stay in registers if there are few.
template <class T_, int D_, int most_tiles> struct Strip {
  using T = T_;
  static constexpr int D = D_;
  static constexpr bool kept = std::is_same_v<T, bf16> && D <= 64;
  static constexpr int R = kept ? most_tiles : 1, rows = R * 16;
  using Scores = TileD[R][chunk / 8];
  using Left = std::conditional_t<kept, KeptRows<T, D, R>, SharedRows<T, D>>;

  static constexpr int most_warps = D * sizeof(T) > 256 ? 2 : 4;  // of a block
  static constexpr int most_threads = most_warps * warp_size;

  // Shared memory that a warp needs to load `factors` left operands, and the place of operand i.
  static constexpr int own_numbers(int factors) { return (kept ? 1 : factors) * 16 * row_stride<T, D>; }
  __device__ static T* own_place(T* own, int i) { return own + (kept ? 0 : i) * 16 * row_stride<T, D>; }
};
template <class T, int D> using QueryStrip = Strip<T, D, 2>;
template <class T, int D> using KeyStrip = Strip<T, D, 1>;

// Resident blocks per multiprocessor, by registers and shared memory.
template <class T, int D> constexpr int forward_blocks = D > 64 ? 1 : sizeof(T) == 2 && D == 16 ? 5 : 3;
template <class T, int D> constexpr int backward_blocks = KeyStrip<T, D>::kept&& D == 16 ? 4 : 2;

// out [B, n, heads, d] = map(softmax(scale q k^T)) v, and stats [B, heads, n]: a number near each row's
// maximum, in powers of two, and 1 / sum.
template <class T, int D>
__global__ void __launch_bounds__(QueryStrip<T, D>::most_threads, forward_blocks<T, D>)
    attention_kernel(const T* qkv, T* out, float2* stats, AttentionShape a, StripPlan plan) {
  using S = QueryStrip<T, D>;
  constexpr int R = S::R;
  const int head = plan.head(), step = plan.warps * S::rows;
  const MatrixRows<const T> kv[] = {a.keys(qkv, head), a.values(qkv, head)};
  Shared shared;
  Panels<T, D, 2> panels(kv, plan.panel, shared.array<T>(Panels<T, D, 2>::numbers(plan.panel, a.n)));
  T* own = shared.array<T>(plan.warps * S::own_numbers(1)) + warp_index() * S::own_numbers(1);
  stats = a.of_head(stats, head);
  const float factor = fabsf(a.scale) * log2_e;

  for (int begin = plan.group() * step; begin < a.n; begin += plan.groups * step) {
    const int first = begin + warp_index() * S::rows;
    const bool active = first < a.n;
    typename S::Left q;
    if (active) q.load(a.queries(qkv, head), first, own);
    RowSoftmax<R> softmax;
    float fade[2 * R];
    TileD o[R][D / 8];
    // Clipping needs the sums of whole rows, so it takes an additional pass for them.
    for (int pass = a.clips() ? 0 : 1; pass < 2; ++pass) {
      panels.walk(0, a.causal ? min(a.n, begin + step) : a.n, [&](int from, const auto& part) {
        if (!active) return;
        const int cols = plan.rows(from, a.causal ? min(a.n, first + S::rows) : a.n);
        for (int c = 0; c < cols; c += chunk) {
          typename S::Scores s;
          product_with_rows<D>(s, q, part[0] + c * row_stride<T, D>);
          if (a.scale < 0) scale(s, -1);
          hide(s, -INFINITY, first, from + c, a.n, a.causal);
          if (a.clips() && pass == 1) {
            for_numbers(s, [&](float& v, int r, int) {
              v = a.clip(power_of_2(v * factor - softmax.most[r]) * softmax.total[r]);
            });
          } else {
            if (softmax.grow(s, factor, fade)) scale_rows(o, fade);
            softmax.add(s, factor);
          }
          if (pass == 1) add_product<D, true>(o, s, part[1] + c * row_stride<T, D>);
        }
      });
      if (pass == 0 || !a.clips()) softmax.finish();
    }
    if (!active) continue;
#pragma unroll
    for (int r = 0; r < 2 * R; ++r) {
      const int row = first + strip_row(r);
      if (threadIdx.x % 4 == 0 && row < a.n) stats[row] = make_float2(softmax.most[r], softmax.total[r]);
    }
    if (!a.clips()) scale_rows(o, softmax.total);
    store_strip<D>(a.rows(out, head, 0, 1), first, o, own);
  }
}

// rows [B, heads, n], with dp = go v^T; and, if gx is given, its queries dq = scale p (dp - dot) k. If the
// result `out` is given, dot = go out; if it is null, dot takes a pass over the keys.
template <class T, int D>
__global__ void __launch_bounds__(QueryStrip<T, D>::most_threads, backward_blocks<T, D>)
    attention_query_gradient_kernel(const T* qkv, const T* out, const T* go, const float2* stats,
                                    RowGradient* rows, T* gx, AttentionShape a, StripPlan plan) {
  using S = QueryStrip<T, D>;
  constexpr int R = S::R;
  const int head = plan.head(), step = plan.warps * S::rows;
  const MatrixRows<const T> kv[] = {a.keys(qkv, head), a.values(qkv, head)};
  Shared shared;
  Panels<T, D, 2> panels(kv, plan.panel, shared.array<T>(Panels<T, D, 2>::numbers(plan.panel, a.n)));
  T* own = shared.array<T>(plan.warps * S::own_numbers(2)) + warp_index() * S::own_numbers(2);
  stats = a.of_head(stats, head);
  rows = a.of_head(rows, head);
  const float factor = a.scale * log2_e;

  for (int begin = plan.group() * step; begin < a.n; begin += plan.groups * step) {
    const int first = begin + warp_index() * S::rows;
    const bool active = first < a.n;
    typename S::Left q, g;
    RowGradient row[2 * R];
    if (active) {
      float dot[2 * R] = {};
      if (out) row_dots<R>(dot, a.rows(out, head, 0, 1), a.rows(go, head, 0, 1), first);
      q.load(a.queries(qkv, head), first, S::own_place(own, 0));
      g.load(a.rows(go, head, 0, 1), first, S::own_place(own, 1));
#pragma unroll
      for (int r = 0; r < 2 * R; ++r)
        if (first + strip_row(r) < a.n) {
          const float2 saved = stats[first + strip_row(r)];
          row[r] = {saved.x, saved.y, dot[r]};
        }
    }
    TileD gq[R][D / 8];
    for (int pass = out ? 1 : 0; pass < (gx ? 2 : 1); ++pass) {
      panels.walk(0, a.causal ? min(a.n, begin + step) : a.n, [&](int from, const auto& part) {
        if (!active) return;
        const int cols = plan.rows(from, a.causal ? min(a.n, first + S::rows) : a.n);
        for (int c = 0; c < cols; c += chunk) {
          typename S::Scores p, dp;
          product_with_rows<D>(p, q, part[0] + c * row_stride<T, D>);
          product_with_rows<D>(dp, g, part[1] + c * row_stride<T, D>);
          for_numbers(p, [&](float& v, int r, int) { v = row[r].p(v, factor); });
          hide(p, 0, first, from + c, a.n, a.causal);
          if (a.clips()) for_numbers(dp, p, [&](float& d, float v, int, int) { d *= a.slope(v); });
          if (pass == 0) {
            for_numbers(dp, p, [&](float d, float v, int r, int) { row[r].dot += v * d; });
          } else {
            for_numbers(dp, p, [&](float& d, float v, int r, int) { d = v * (d - row[r].dot); });
            add_product<D, true>(gq, dp, part[0] + c * row_stride<T, D>);
          }
        }
      });
#pragma unroll
      for (int r = 0; r < 2 * R; ++r)
        if (pass == 0) row[r].dot = row_sum(row[r].dot);
    }
    if (!active) continue;
#pragma unroll
    for (int r = 0; r < 2 * R; ++r)
      if (threadIdx.x % 4 == 0 && first + strip_row(r) < a.n) rows[first + strip_row(r)] = row[r];
    if (!gx) continue;
    scale(gq, a.scale);
    store_strip<D>(a.queries(gx, head), first, gq, own);
  }
}

// gx's values dv = map(p)^T go and keys dk = scale ds^T q, with ds = p (dp - dot). If keys serve as queries
// (symmetric), scale (ds + ds^T) k: the score of rows i and j is also that of j and i. f32 heads wider than 64
// have registers for the rounded sums of only one of both, and take two launches.
template <class T, int D> constexpr bool splits_key_gradient = sizeof(T) == 4 && D > 64;
template <class T, int D, bool symmetric, bool for_keys, bool for_values>
__global__ void __launch_bounds__(KeyStrip<T, D>::most_threads, backward_blocks<T, D>)
    attention_key_gradient_kernel(const T* qkv, const T* go, const RowGradient* rows, T* gx, AttentionShape a,
                                  StripPlan plan) {
  using S = KeyStrip<T, D>;
  constexpr int R = S::R, parts = symmetric ? 3 : 2;
  const int head = plan.head(), step = plan.warps * S::rows;
  const MatrixRows<const T> qgv[] = {a.queries(qkv, head), a.rows(go, head, 0, 1), a.values(qkv, head)};
  Shared shared;
  using P = Panels<T, D, parts>;
  P panels(qgv, plan.panel, shared.array<T>(P::numbers(plan.panel, a.n)));
  T* own = shared.array<T>(plan.warps * S::own_numbers(parts)) + warp_index() * S::own_numbers(parts);
  rows = a.of_head(rows, head);
  const float factor = a.scale * log2_e;
  const auto row_gradient = [&](int i) { return i < a.n ? rows[i] : RowGradient{}; };

  for (int begin = plan.group() * step; begin < a.n; begin += plan.groups * step) {
    const int first = begin + warp_index() * S::rows;
    const bool active = first < a.n;
    typename S::Left k, v, g;
    RowGradient row[2 * R];
    if (active) {
      k.load(a.keys(qkv, head), first, S::own_place(own, 0));
      if constexpr (for_keys) v.load(a.values(qkv, head), first, S::own_place(own, 1));
      if constexpr (symmetric && for_keys) {
        g.load(a.rows(go, head, 0, 1), first, S::own_place(own, 2));
#pragma unroll
        for (int r = 0; r < 2 * R; ++r) row[r] = row_gradient(first + strip_row(r));
      }
    }
    TileD gk[R][D / 8], gv[R][D / 8];
    panels.walk(a.causal && !symmetric ? begin : 0, a.n, [&](int from, const auto& part) {
      if (!active) return;
      // Processes chunks of [c, end), where the strip's rows are keys for the columns' queries, queries for
      // the columns' keys, or both.
      const auto chunks = [&]<bool as_key, bool as_query>(int c, int end) {
        for (; c < end; c += chunk) {
          const int at = c * row_stride<T, D>;
          RowGradient col[chunk / 4];
          typename S::Scores s, p, ds, dp;
          product_with_rows<D>(s, k, part[0] + at);
          if constexpr (as_key) {
#pragma unroll
            for (int i = 0; i < chunk / 4; ++i) col[i] = row_gradient(from + c + chunk_col(i));
            if constexpr (for_keys) product_with_rows<D>(ds, v, part[1] + at);
          }
          if constexpr (as_query && for_keys) product_with_rows<D>(dp, g, part[2] + at);
          if constexpr (as_key) {
            for_numbers(p, s,
                        [&](float& weight, float score, int, int i) { weight = col[i].p(score, factor); });
            if (a.causal && from + c < first + S::rows)
              for_numbers(p, [&](float& weight, int r, int i) {
                if (from + c + chunk_col(i) < first + strip_row(r)) weight = 0;
              });
            if constexpr (for_keys) {
              if (a.clips())
                for_numbers(ds, p, [&](float& d, float weight, int, int) { d *= a.slope(weight); });
              for_numbers(ds, p, [&](float& d, float weight, int, int i) { d = weight * (d - col[i].dot); });
            }
            if constexpr (for_values) {
              if (a.clips()) for_numbers(p, [&](float& weight, int, int) { weight = a.clip(weight); });
              add_product<D, true>(gv, p, part[1] + at);
            }
          }
          if constexpr (as_query && for_keys) {
            for_numbers(s, [&](float& weight, int r, int) { weight = row[r].p(weight, factor); });
            hide(s, 0, first, from + c, a.n, a.causal);
            if (a.clips())
              for_numbers(dp, s, [&](float& d, float weight, int, int) { d *= a.slope(weight); });
            for_numbers(dp, s, [&](float& d, float weight, int r, int) { d = weight * (d - row[r].dot); });
            for_numbers(ds, dp, [&](float& sum, float term, int, int) { sum += term; });
          }
          if constexpr (for_keys) add_product<D, true>(gk, ds, part[0] + at);
        }
      };
      const int cols = plan.rows(from, a.n);
      const int before = a.causal ? min(cols, max(0, first - from)) : 0;
      if constexpr (symmetric) {
        const int after = a.causal ? min(cols, max(0, first + S::rows - from)) : cols;
        if constexpr (for_keys) chunks.template operator()<false, true>(0, before);
        chunks.template operator()<true, true>(before, after);
        chunks.template operator()<true, false>(after, cols);
      } else {
        chunks.template operator()<true, false>(before, cols);
      }
    });
    if (!active) continue;
    if constexpr (for_keys) {
      scale(gk, a.scale);
      store_strip<D>(a.keys(gx, head), first, gk, own);
    }
    if constexpr (for_values) store_strip<D>(a.values(gx, head), first, gv, own);
  }
}

// --- the launches

struct StripLaunch {
  Grid grid;
  StripPlan plan;
};

// For strips S with `Factors` of them per warp, and panels of `Parts` matrices, in at most `shared` bytes.
template <class S, int Parts, int Factors, int shared> StripLaunch deal_strips(int n, int64_t heads) {
  using T = typename S::T;
  constexpr int own = S::most_warps * S::own_numbers(Factors) * int(sizeof(T));
  constexpr int most = (shared - own) / (Parts * row_stride<T, S::D> * int(sizeof(T)));
  constexpr int streamed = most / 2 / chunk * chunk;
  static_assert(streamed > 0);
  const int padded = (n + chunk - 1) / chunk * chunk, strips = (n + S::rows - 1) / S::rows;
  const int rounds = (strips + S::most_warps - 1) / S::most_warps;
  const bool whole = padded <= most;
  StripPlan plan{whole ? padded : streamed, rounds, (strips + rounds - 1) / rounds};
  // If a block holds a whole head it processes all of its strips, unless there are too few heads for all
  // multiprocessors.
  if (whole && heads >= 256) plan.groups = 1;
  return {{unsigned(heads * plan.groups), unsigned(plan.warps * warp_size),
           shared_size<T>(Panels<T, S::D, Parts>::numbers(plan.panel, n)) +
               shared_size<T>(plan.warps * S::own_numbers(Factors))},
          plan};
}

// Shared memory per block: three forward blocks per multiprocessor of an H100, and what every GPU has.
constexpr int forward_shared = 75 * 1024, backward_shared = 99 * 1024;

template <class T, int D>
void attention_forward(const T* qkv, T* out, float2* stats, const AttentionShape& a, int64_t batch) {
  const auto [grid, plan] = deal_strips<QueryStrip<T, D>, 2, 1, forward_shared>(a.n, batch * a.heads);
  launch<attention_kernel<T, D>>(grid, qkv, out, stats, a, plan);
}

template <class T, int D, bool symmetric>
void attention_key_gradients(const T* qkv, const T* go, const RowGradient* rows, T* gx,
                             const AttentionShape& a, int64_t heads) {
  constexpr int factors = symmetric ? 3 : 2;
  const auto [grid, plan] = deal_strips<KeyStrip<T, D>, factors, factors, backward_shared>(a.n, heads);
  if constexpr (splits_key_gradient<T, D>) {
    launch<attention_key_gradient_kernel<T, D, symmetric, true, false>>(grid, qkv, go, rows, gx, a, plan);
    launch<attention_key_gradient_kernel<T, D, symmetric, false, true>>(grid, qkv, go, rows, gx, a, plan);
  } else {
    launch<attention_key_gradient_kernel<T, D, symmetric, true, true>>(grid, qkv, go, rows, gx, a, plan);
  }
}

// out: the result, or null where it does not give the sums of rows; rows: scratch memory [batch, heads, n].
template <class T, int D> void attention_backward(const T* qkv, const T* out, const T* go,
                                                  const float2* stats, RowGradient* rows, T* gx,
                                                  const AttentionShape& a, int64_t batch) {
  const int64_t heads = batch * a.heads;
  const auto queries = deal_strips<QueryStrip<T, D>, 2, 2, backward_shared>(a.n, heads);
  launch<attention_query_gradient_kernel<T, D>>(queries.grid, qkv, out, go, stats, rows,
                                                a.parts == 3 ? gx : nullptr, a, queries.plan);
  if (a.parts == 3)
    attention_key_gradients<T, D, false>(qkv, go, rows, gx, a, heads);
  else
    attention_key_gradients<T, D, true>(qkv, go, rows, gx, a, heads);
}

}  // namespace pursuit::cuda
#endif
