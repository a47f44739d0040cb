#pragma once
#include <climits>

#include "cuda/attend.cuh"

// Shared by the kernels of RPC-Attention. With W = clip(X) + L the iteration is, elementwise,
//   U = W - L,  X = K - L + U,  W' = clip(X) + L,  Z' = W' - c U,
// so that W is all that a lane keeps besides L while Z Z^T is computed; c is 2, or 0 for the dual sign plus.
#ifdef PURSUIT_GPU
namespace pursuit::cuda {

// Head dims with kernels of their own; others are padded with zeros to the next.
constexpr int most_head_dim = 128;
constexpr int head_dim_tile(int64_t d) { return d <= 16 ? 16 : d <= 32 ? 32 : d <= 64 ? 64 : most_head_dim; }

// Calls f.operator()<D>() with the head dim's D.
template <class F> void for_head_dim(int64_t d, const F& f) {
  switch (head_dim_tile(d)) {
    case 16:
      return f.template operator()<16>();
    case 32:
      return f.template operator()<32>();
    case 64:
      return f.template operator()<64>();
    default:
      return f.template operator()<most_head_dim>();
  }
}

// Tiles of 16 rows per warp strip: two, which halves the reads of shared memory, if registers suffice.
template <int D> constexpr int strip_tiles = D <= 64 ? 2 : 1;

// A lane's share of 16 rows' regions, 2 bits per number: 0 where |X| < tau, 1 for X >= tau, 2 for X <= -tau.
constexpr int region_words(int head_dim) { return head_dim <= 32 ? 1 : head_dim / 32; }

// The largest head whose state fits on one multiprocessor; registers are the limit.
constexpr int on_chip_head_dim = 64, on_chip_warps = 8;
// Other heads are streamed: blocks of four warps and panels of this many rows where shared memory allows, else
// smaller panels, of at least 16 rows, and then fewer warps, in the 99 KiB that every GPU has.
struct Streaming {
  int warps, panel;
};
constexpr int streaming_warps = 4;
constexpr size_t least_shared = 99 * 1024;
template <class T, int D>
constexpr Streaming streaming{streaming_warps, int(D * sizeof(T) <= 128 ? 64 : 8192 / (D * sizeof(T)))};
// bytes(block, n): what a block takes for n rows.
template <class Bytes> constexpr Streaming smaller(Streaming block, const Bytes& bytes) {
  while (bytes(block, INT_MAX) > least_shared) (block.panel > 16 ? block.panel : block.warps) /= 2;
  return block;
}
// f.operator()<warps, panel>() for the larger that fits.
template <class T, int D, class Bytes, class F> void for_streaming(int n, const Bytes& bytes, const F& f) {
  constexpr Streaming most = streaming<T, D>, least = smaller(most, Bytes{});
  if (bytes(most, n) <= shared_memory_limit())
    f.template operator()<most.warps, most.panel>();
  else
    f.template operator()<least.warps, least.panel>();
}

struct RpcStep {
  float tau[2];  // of a lane's two rows; 0 without shrinking (S = X)
  float dual;    // c
  bool shrinks;
};

struct RpcShape {
  int64_t batch;
  int heads, n, d, iterations;
  float scale, lambda, mu_times_l1;  // mu = mu_times_l1 / ||K||_1; by row: for one token
  bool tau_by_row;                   // row i's tau is computed from keys 0 ... i instead of all
  bool causal, quotient, dual_plus, shrink_every_iteration, tau_has_gradient;

  HD int64_t all_heads() const { return batch * heads; }
  HD int tiles() const { return (n + 31) / 32 * 2; }  // tiles of 16 rows

  // A head's rows in kv [B, N, 2, H, D], in the result [B, N, H, D], and in the saved iterations [iterations,
  // B, H, N, D].
  template <class T> __device__ MatrixRows<T> keys(T* kv, int64_t head) const {
    return {kv + (head / heads * n * 2 * heads + head % heads) * d, 2 * heads * d, n, d};
  }
  template <class T> __device__ MatrixRows<T> values(T* kv, int64_t head) const {
    return keys(kv + int64_t(heads) * d, head);
  }
  template <class T> __device__ MatrixRows<T> merged(T* out, int64_t head) const {
    return {out + (head / heads * n * heads + head % heads) * d, heads * d, n, d};
  }
  template <class T> __device__ MatrixRows<T> kept(T* z, int t, int64_t head) const {
    return {z + (t * all_heads() + head) * n * d, d, n, d};
  }
  // L of iteration t; the last one is the result.
  template <class T> __device__ MatrixRows<T> low_rank(T* l, T* out, int t, int64_t head) const {
    return t + 1 == iterations ? merged(out, head) : kept(l, t, head);
  }
  // The tile's [region_words, 32] of region [iterations, B, H, tiles, region_words, 32].
  template <class U> __device__ U* regions(U* region, int t, int64_t head, int tile, int words) const {
    return region + ((t * all_heads() + head) * tiles() + tile) * words * warp_size;
  }
  // [N, 2] of stats [iterations, B, H, N, 2]: P_ij = exp2(scale log2(e) z_i z_j - stats[0]) stats[1].
  template <class F> __device__ F* row_stats(F* stats, int t, int64_t head) const {
    return stats + (t * all_heads() + head) * n * 2;
  }

  __device__ float threshold(float mu) const { return quotient ? lambda / mu : lambda * mu; }
  // A head's part of tau and l1 [B, H, taus()].
  __device__ int taus() const { return tau_by_row ? n : 1; }
  template <class F> __device__ F* of_head(F* taus_of_all, int64_t head) const {
    return taus_of_all + head * taus();
  }
  // The step of the 16 rows from `row` on, with the head's taus.
  __device__ RpcStep step(const float* tau, int row, int t) const {
    const bool shrinks = shrink_every_iteration || t + 1 == iterations;
    const auto of = [&](int i) { return shrinks ? tau[tau_by_row ? min(row + tile_row(i), n - 1) : 0] : 0; };
    return {{of(0), of(2)}, dual_plus ? 0.0f : 2.0f, shrinks};
  }
  // The contribution of dLoss/dtau = gtau to dLoss/dK_ij, up to the sign of K_ij.
  __device__ float tau_gradient(float gtau, float tau, float l1) const {
    return !tau_has_gradient || l1 == 0 ? 0 : (quotient ? 1 : -1) * gtau * tau / l1;
  }
};

// Prefix sums: store(i, start + value(0) + ... + value(i)) for 0 <= i < n, by one warp, 32 at a time.
template <class Value, class Store>
__device__ inline void running_sums(int n, float start, const Value& value, const Store& store) {
  const int lane = lane_index();
  for (int i = lane; i - lane < n; i += warp_size) {
    float sum = i < n ? value(i) : 0;
    for (int o = 1; o < warp_size; o *= 2) {
      const float before = __shfl_up_sync(all_lanes, sum, o);
      if (lane >= o) sum += before;
    }
    sum += start;
    if (i < n) store(i, sum);
    start = __shfl_sync(all_lanes, sum, warp_size - 1);
  }
}

// Two adjacent numbers.
template <class T> using Two = std::conditional_t<std::is_same_v<T, bf16>, uint32_t, float2>;
template <class T> __device__ inline Two<T> make_two(float x, float y) {
  if constexpr (std::is_same_v<T, bf16>)
    return pack_bf16(x, y);
  else
    return make_float2(x, y);
}
__device__ inline float2 load_two(const float* p) { return *reinterpret_cast<const float2*>(p); }
__device__ inline float2 load_two(const bf16* p) {
  const uint32_t both = *reinterpret_cast<const uint32_t*>(p);
  return make_float2(__uint_as_float(both << 16), __uint_as_float(both & 0xffff0000u));
}
template <class T> __device__ inline void store_two(T* p, Two<T> both) {
  *reinterpret_cast<Two<T>*>(p) = both;
}

// One step of 16 rows: w becomes W', z receives Z' and `region` the regions of X. k and z are rows in shared
// memory.
template <int D, class T> __device__ inline void rpc_step(const T* k, T* z, TileD (&w)[D / 8],
                                                          const TileD (&l)[D / 8], const RpcStep& step,
                                                          uint32_t* region) {
  uint32_t codes = 0;
#pragma unroll
  for (int j = 0; j < D / 8; ++j) {
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      const int at = tile_row(i) * row_stride<T, D> + 8 * j + tile_col(i);
      const float2 pair = load_two(k + at);
      float z_new[2];
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const float low = l[j].v[i + e], u = w[j].v[i + e] - low;
        const float x = (e == 0 ? pair.x : pair.y) - low + u;
        const float tau = step.tau[i / 2];
        const uint32_t code = x >= tau ? 1 : x <= -tau ? 2 : 0;
        codes |= code << (j % 4 * 8 + (i + e) * 2);
        w[j].v[i + e] = fminf(fmaxf(x, -tau), tau) + low;
        z_new[e] = w[j].v[i + e] - step.dual * u;
      }
      store_two(z + at, make_two<T>(z_new[0], z_new[1]));
    }
    if (j % 4 == 3 || j + 1 == D / 8) {
      region[j / 4 * warp_size + lane_index()] = codes;
      codes = 0;
    }
  }
}

// A lane's result numbers, stored in memory: [J, 32] of four numbers.
template <int J> __device__ inline void load_results(TileD (&d)[J], const float* p) {
#pragma unroll
  for (int j = 0; j < J; ++j) {
    const float4 four = reinterpret_cast<const float4*>(p)[j * warp_size + lane_index()];
    d[j] = {{four.x, four.y, four.z, four.w}};
  }
}
template <int J> __device__ inline void save_results(const TileD (&d)[J], float* p) {
#pragma unroll
  for (int j = 0; j < J; ++j)
    reinterpret_cast<float4*>(p)[j * warp_size + lane_index()] =
        make_float4(d[j].v[0], d[j].v[1], d[j].v[2], d[j].v[3]);
}

// The gradient of a step of 16 rows. In: gz = the part of dLoss/dZ that comes from the products, gu =
// dLoss/dU. Out: gu becomes the gradient of the previous step's U, gl that of its L; gk += dLoss/dX, and gtau
// += the lane's part of its two rows' dLoss/dtau. gu and gk are stored as by save_results, gl is [row, row +
// 8] of every tile.
template <int D, class T>
__device__ inline void rpc_step_grad(const TileD (&gz)[D / 8], Two<T> (&gl)[D / 8][2], float* gu, float* gk,
                                     const RpcStep& step, const uint32_t* region, float (&gtau)[2]) {
  const int lane = lane_index();
#pragma unroll
  for (int j = 0; j < D / 8; ++j) {
    const uint32_t codes = region[j / 4 * warp_size + lane] >> (j % 4 * 8);
    TileD u[1], k[1];
    load_results(u, gu + j * 4 * warp_size);
    load_results(k, gk + j * 4 * warp_size);
    float low[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t code = codes >> (2 * i) & 3;
      const float g = gz[j].v[i] + u[0].v[i], gx = code == 0 ? g : 0;
      if (step.shrinks) gtau[i / 2] += code == 1 ? g : code == 2 ? -g : 0;
      k[0].v[i] += gx;
      u[0].v[i] = step.dual * (u[0].v[i] - g) + gx;
      low[i] = g - gx - u[0].v[i];
    }
    gl[j][0] = make_two<T>(low[0], low[1]);
    gl[j][1] = make_two<T>(low[2], low[3]);
    save_results(u, gu + j * 4 * warp_size);
    save_results(k, gk + j * 4 * warp_size);
  }
}

// Calls f(row of the tile, sum over its lanes) for the 16 rows of rpc_step_grad's gtau.
template <class F> __device__ inline void for_row_sums(const float (&gtau)[2], const F& f) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const float sum = row_sum(gtau[i]);
    if (threadIdx.x % 4 == 0) f(tile_row(2 * i), sum);
  }
}

// Writes rpc_step_grad's gl to 16 rows of shared memory.
template <int D, class T> __device__ inline void store_next(T* g, const Two<T> (&gl)[D / 8][2]) {
#pragma unroll
  for (int j = 0; j < D / 8; ++j)
#pragma unroll
    for (int i = 0; i < 2; ++i)
      store_two(g + tile_row(2 * i) * row_stride<T, D> + 8 * j + tile_col(0), gl[j][i]);
}

// k [16, D] (results) += c sign(keys), with c [16] and keys in shared memory; sign(0) = 0.
template <int D, class T> __device__ inline void add_signs(TileD (&k)[D / 8], const T* keys, const float* c) {
#pragma unroll
  for (int j = 0; j < D / 8; ++j)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float x = upcast(keys[tile_row(i) * row_stride<T, D> + 8 * j + tile_col(i)]);
      const float of_row = c[tile_row(i)];
      k[j].v[i] += x > 0 ? of_row : x < 0 ? -of_row : 0;
    }
}

// A strip's rows as left operands: in registers if there are few, else in shared memory.
template <class T, int D, int R> using LeftRows =
    std::conditional_t<std::is_same_v<T, bf16> && D <= 64, KeptRows<T, D, R>, SharedRows<T, D>>;
template <int D, class T> __device__ inline void take_rows(SharedRows<T, D>& left, const T* rows) {
  left.p = rows;
}
template <int D, int R> __device__ inline void take_rows(KeptRows<bf16, D, R>& left, const bf16* rows) {
#pragma unroll
  for (int r = 0; r < R; ++r)
#pragma unroll
    for (int k = 0; k < D / tile_depth<bf16>; ++k) left.a[r][k] = SharedRows<bf16, D>{rows}.tile(r, k);
}

}  // namespace pursuit::cuda
#endif
