#pragma once
#include <algorithm>

#include "cuda/attend.cuh"

#ifdef PURSUIT_GPU
namespace pursuit::cuda {

// Attention over packed projections [B, n, parts, heads, d]: q, k, v, or k, v with keys as queries.
struct AttentionShape {
  int n, d, parts, heads;
  float scale;  // times log2(e)
  bool causal;
  float gamma, zeta;

  __device__ bool clips() const { return gamma != 0 || zeta != 1; }
  __device__ float clip(float p) const {
    const float y = (zeta - gamma) * p + gamma, capped = y > 1 ? 1 : y;
    return capped < 0 ? 0 : capped;
  }
  // Head number b * heads + h of one part of x [B, n, of, heads, d].
  template <class T>
  __device__ HeadRows<T> rows(T* x, int head, int part, int of) const {
    const int64_t b = head / heads, h = head % heads;
    return {x + ((b * n * of + part) * heads + h) * d, of * heads * d, n, d};
  }
  template <class T>
  __device__ HeadRows<const T> queries(const T* x, int head) const {
    return rows(x, head, 0, parts);
  }
  template <class T>
  __device__ HeadRows<const T> keys(const T* x, int head) const {
    return rows(x, head, parts - 2, parts);
  }
  template <class T>
  __device__ HeadRows<const T> values(const T* x, int head) const {
    return rows(x, head, parts - 1, parts);
  }
};

// How the strips of a head are dealt out: `groups` blocks, whose warps take a strip each, `rounds` times.
struct StripPlan {
  int panel, groups, rounds, warps;

  // The warp's strip in a round, and the end of the strips of its block.
  __device__ int strip(int round) const {
    return (round * groups + int(blockIdx.x) % groups) * warps + int(threadIdx.x) / warp_size;
  }
  __device__ int strips_end(int round) const {
    return (round * groups + int(blockIdx.x) % groups + 1) * warps;
  }
};

template <class T, int D>
StripPlan plan_strips(int n, int64_t heads, int strip, int most_warps) {
  constexpr int panel_bytes = 36 * 1024, most = panel_bytes / int(row_stride<T, D> * sizeof(T));
  const int padded = (n + 15) / 16 * 16, strips = (n + strip - 1) / strip;
  const bool resident = padded <= most;
  StripPlan plan;
  plan.panel = resident ? padded : most / 2 / 32 * 32;
  plan.rounds = (strips + most_warps - 1) / most_warps;
  plan.warps = (strips + plan.rounds - 1) / plan.rounds;
  // A block that keeps a head's rows makes all of its strips, unless there are too few heads for all
  // processors.
  plan.groups = resident && heads >= 256 ? 1 : plan.rounds;
  plan.rounds = (plan.rounds + plan.groups - 1) / plan.groups;
  return plan;
}

template <class T, int D>
struct AttentionTiles {
  // Registers hold the rows of a left factor only where they are few.
  static constexpr bool kept = std::is_same_v<T, bf16> && D <= 64;
  static constexpr int R = kept ? 2 : 1;
  static constexpr int J = 4;
  static constexpr int most_warps = 4;
  using Left = std::conditional_t<kept, KeptRows<T, D, R>, SharedRows<T, D>>;
  static constexpr int left_numbers = 16 * row_stride<T, D>;
};

// out [B, n, heads, d] = map(softmax(scale q k^T)) v, and stats [B, heads, n]: each row's maximum (in powers
// of two) and 1 / sum.
template <class T, int D>
__global__ void __launch_bounds__(AttentionTiles<T, D>::most_warps* warp_size,
                                  AttentionTiles<T, D>::kept ? 3 : 1)
    attention_kernel(const T* qkv, T* out, float2* stats, AttentionShape a, StripPlan plan) {
  using Tiles = AttentionTiles<T, D>;
  constexpr int R = Tiles::R, J = Tiles::J;
  const int head = int(blockIdx.x) / plan.groups;
  const HeadRows<const T> kv[2] = {a.keys(qkv, head), a.values(qkv, head)};
  Shared shared;
  T* memory = shared.array<T>(Panels<T, D, 2>::numbers(plan.panel, a.n));
  T* own = shared.array<T>(plan.warps * Tiles::left_numbers) + threadIdx.x / warp_size * Tiles::left_numbers;
  Panels<T, D, 2> panels(kv, plan.panel, memory);

  for (int round = 0; round < plan.rounds; ++round) {
    const int first = plan.strip(round) * 16 * R;
    const bool active = first < a.n;
    const int end = a.causal ? min(a.n, first + 16 * R) : a.n;
    const int walk_end = a.causal ? min(a.n, plan.strips_end(round) * 16 * R) : a.n;
    typename Tiles::Left q;
    if (active) q.load(a.queries(qkv, head), first, own);

    RowSoftmax<R> softmax;
    float fade[2 * R], inverse[2 * R];
    TileD o[R][D / 8];
    // Clipping needs the sums of whole rows, hence a walk of its own for them.
    for (int pass = a.clips() ? 0 : 1; pass < 2; ++pass) {
      panels.walk(0, walk_end, [&](int from, const auto& part) {
        for (int c = 0; active && c < plan.panel && from + c < end; c += J * 8) {
          const int cols = (min(J * 8, min(plan.panel - c, end - from - c)) + 15) / 16 * 16;
          TileD s[R][J];
          product_with_rows<D>(s, q, part[0] + c * row_stride<T, D>, cols);
          scale_and_hide(s, a.scale, first, from + c, a.n, a.causal);
          if (a.clips() && pass == 1) {
            for_numbers(s, [&](float& v, int slot, int) {
              v = a.clip(power_of_2(v - softmax.most[slot]) * inverse[slot]);
            });
          } else {
            softmax.add(s, fade);
            scale_rows(o, fade);
          }
          if (pass == 1) add_product<D>(o, s, part[1] + c * row_stride<T, D>, cols);
        }
      });
      if (pass == 0 || !a.clips()) softmax.finish(inverse);
    }
    if (!a.clips()) scale_rows(o, inverse);
    if (!active) continue;
    store_strip<D>(a.rows(out, head, 0, 1), first, o, own);
#pragma unroll
    for (int slot = 0; slot < 2 * R; ++slot) {
      const int row = first + strip_row(slot);
      if (threadIdx.x % 4 == 0 && row < a.n)
        stats[int64_t(head) * a.n + row] = make_float2(softmax.most[slot], inverse[slot]);
    }
  }
}

template <class T, int D>
void attention_forward(const T* qkv, T* out, float2* stats, const AttentionShape& a, int64_t batch) {
  using Tiles = AttentionTiles<T, D>;
  const StripPlan plan = plan_strips<T, D>(a.n, batch * a.heads, 16 * Tiles::R, Tiles::most_warps);
  const size_t shared = shared_size<T>(Panels<T, D, 2>::numbers(plan.panel, a.n)) +
                        shared_size<T>(plan.warps * Tiles::left_numbers);
  launch<attention_kernel<T, D>>(
      {unsigned(batch * a.heads * plan.groups), unsigned(plan.warps * warp_size), shared}, qkv, out, stats, a,
      plan);
}

}  // namespace pursuit::cuda
#endif
