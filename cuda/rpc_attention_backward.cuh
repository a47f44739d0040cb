#pragma once
#include <utility>

#include "cuda/launch.h"
#include "cuda/rpc_attention.cuh"

// RPC-Attention backward: the iterations in reverse. As scores are symmetric, S_ij gives both P_ij and P_ji,
// and a warp that loops over the columns of its own rows computes everything that these rows receive:
//   dP_ij = g_i v_j,  dP_ji = g_j v_i,  E_ij = P_ij (dP_ij - D_i) + P_ji (dP_ji - D_j),
//   dZ_i = scale sum_j E_ij z_j,  dV_i = sum_j P_ji g_j,
// where g is the gradient of L = P V and D_i = sum_j P_ij dP_ij = g_i l_i. No sum is split between warps.
#ifdef PURSUIT_GPU
namespace pursuit::cuda {

template <class T> struct RpcBackward {
  RpcShape shape;
  const T *kv, *z, *l, *out;  // as saved by forward
  const uint32_t* region;
  const float *stats, *l1, *tau;
  const T* go;
  T* gx;
};

// Calls f(i, dot product of row i of x [16, D] in shared memory and row first + i of y); one warp.
template <int D, class T, class F>
__device__ void row_dots(const T* x, const MatrixRows<const T>& y, int first, F f) {
  constexpr int moves = D / per_move<T>, rows = warp_size / moves;
  const int lane = lane_index(), col = lane % moves * per_move<T>;
  const bool aligned = y.aligned();
#pragma unroll 1  // otherwise the addresses of all rows occupy registers
  for (int i = lane / moves; i < 16; i += rows) {
    float sum = 0;
    if (first + i < y.n && col < y.d) {
      const T* from = y.at(first + i) + col;
      T piece[per_move<T>];
      if (aligned) {
        const uint4 whole = *reinterpret_cast<const uint4*>(from);
        memcpy(piece, &whole, sizeof whole);
      } else {
#pragma unroll
        for (int k = 0; k < per_move<T>; ++k) piece[k] = col + k < y.d ? from[k] : downcast<T>(0.0f);
      }
#pragma unroll
      for (int k = 0; k < per_move<T>; ++k)
        sum += upcast(piece[k]) * upcast(x[i * row_stride<T, D> + col + k]);
    }
#pragma unroll
    for (int o = moves / 2; o > 0; o /= 2) sum += __shfl_xor_sync(all_lanes, sum, o);
    if (col == 0) f(i, sum);
  }
}

// Rows in shared memory.
template <class T, int D> struct RpcGradRows {
  const T *z, *v, *g;
  const RowGradient* softmax;

  __device__ RpcGradRows from(int row) const {
    const int at = row * row_stride<T, D>;
    return {z + at, v + at, g + at, softmax + row};
  }
};

// A warp's 16 rows: dZ_i / scale and dV_i while they are accumulated over the columns, 16 at a time.
template <class T, int D> struct RpcGradStrip {
  using Chunk = TileD[1][2];

  TileD gz[1][D / 8];
  LeftRows<T, D, 1> z, v, g;
  RowGradient row[2];

  __device__ void begin(const RpcGradRows<T, D>& own) {
    take_rows(z, own.z);
    take_rows(v, own.v);
    take_rows(g, own.g);
#pragma unroll
    for (int r = 0; r < 2; ++r) row[r] = own.softmax[strip_row(r)];
#pragma unroll
    for (int j = 0; j < D / 8; ++j) gz[0][j] = {};
  }

  // Accumulates columns first ... end - 1, with rows at `cols`, in gz and gv; own_row is the strip's first.
  __device__ void add(RpcGradRows<T, D> cols, int own_row, int first, int end, const RpcShape& s,
                      TileD (&gv)[1][D / 8]) {
    for (int col = first; col < end; col += 16, cols = cols.from(16)) {
      if (!s.causal || col == own_row)
        add_chunk<true, true>(cols, s, gv);
      else if (col < own_row)
        add_chunk<true, false>(cols, s, gv);
      else
        add_chunk<false, true>(cols, s, gv);
    }
  }

  // After the last column: sets gz to dZ for the first `rows` rows of the strip and to 0 for the others,
  // which have also received contributions.
  __device__ void finish(int rows, float scale) {
    for_numbers(gz, [&](float& x, int r, int) { x = strip_row(r) < rows ? x * scale : 0; });
  }

 private:
  // by_row: the strip's rows see the columns; by_column: the columns' rows see the strip's. Both: the
  // diagonal if causal, where only some do.
  template <bool by_row, bool by_column>
  __device__ void add_chunk(const RpcGradRows<T, D>& cols, const RpcShape& s, TileD (&gv)[1][D / 8]) {
    Chunk score, p, e, e_back;
    product_with_rows<D>(score, z, cols.z);
    if constexpr (by_row) product_with_rows<D>(e, g, cols.v);
    if constexpr (by_column) product_with_rows<D>(e_back, v, cols.g);
    const float factor = s.scale * log2_e;
    const bool diagonal = by_row && by_column && s.causal;
    if constexpr (by_row) {
      for_numbers(p, score, [&](float& x, float y, int r, int) { x = row[r].p(y, factor); });
      if (diagonal)
        for_numbers(p, [&](float& x, int r, int c) {
          if (chunk_col(c) > strip_row(r)) x = 0;
        });
      for_numbers(e, p, [&](float& gp, float x, int r, int) { gp = x * (gp - row[r].dot); });
    }
    if constexpr (by_column) {
      RowGradient col[4];
#pragma unroll
      for (int c = 0; c < 4; ++c) col[c] = cols.softmax[chunk_col(c)];
      for_numbers(p, score, [&](float& x, float y, int, int c) { x = col[c].p(y, factor); });
      if (diagonal)
        for_numbers(p, [&](float& x, int r, int c) {
          if (chunk_col(c) < strip_row(r)) x = 0;
        });
      for_numbers(e_back, p, [&](float& gp, float x, int, int c) { gp = x * (gp - col[c].dot); });
      add_product<D>(gv, p, cols.g);
    }
    if constexpr (by_row && by_column)
      for_numbers(e, e_back, [](float& sum, float x, int, int) { sum += x; });
    add_product<D>(gz, by_row ? e : e_back, cols.z);
  }
};

// Converts of_tau, dLoss/dtau of rows first ... end - 1, to what these rows' keys receive: they contribute to
// the taus of all rows from their own on; `later` is the contribution of later rows. One warp.
inline __device__ void add_later_rows(const RpcShape& s, const float* tau, const float* l1, int first,
                                      int end, float later, float* of_tau) {
  const int last = end - 1;
  running_sums(
      end - first, later,
      [&](int i) { return s.tau_gradient(of_tau[last - i - first], tau[last - i], l1[last - i]); },
      [&](int i, float sum) { of_tau[last - i - first] = sum; });
}

// One block per head, one warp per strip of rows. Z, V and g are in shared memory, for f32 also dU and dK.
template <class T, int D> __global__ void __launch_bounds__(256, D * sizeof(T) == 32 ? 2 : 1)
    rpc_backward_kernel(RpcBackward<T> a) {
  constexpr int R = strip_tiles<D>, ld = row_stride<T, D>;
  const RpcShape& s = a.shape;
  const int64_t head = blockIdx.x;
  const int rows = (s.n + 15) / 16 * 16, thread = int(threadIdx.x), threads = int(blockDim.x);
  const int row = warp_index() * 16 * R;  // first row of the warp
  Shared shared;
  T* z = shared.array<T>(rows * ld);
  T* v = shared.array<T>(rows * ld);
  T* g = shared.array<T>(rows * ld);
  float* gu = shared.array<float>(rows * D);
  float* gk = shared.array<float>(rows * D);
  RowGradient* softmax = shared.array<RowGradient>(rows);
  float* of_tau = shared.array<float>(rows);  // what a row's keys receive through tau, up to their signs
  float* part = shared.array<float>(32);
  const RpcGradRows<T, D> all{z, v, g, softmax};

  load_rows<D>(v, s.values(a.kv, head), 0, rows, thread, threads);
  load_rows<D>(g, s.merged(a.go, head), 0, rows, thread, threads);
  close_copies();
  wait_copies<0>();
  __syncthreads();
  TileD gv[R][1][D / 8];
#pragma unroll
  for (int r = 0; r < R; ++r) {
    if (row + 16 * r >= rows) break;
    save_results(gv[r][0], gu + (row + 16 * r) * D);
    save_results(gv[r][0], gk + (row + 16 * r) * D);
  }

  const float *tau = s.of_head(a.tau, head), *l1 = s.of_head(a.l1, head);
  float gtau[R][2] = {};
  for (int t = s.iterations - 1; t >= 0; --t) {
    load_rows<D>(z, s.kept(a.z, t, head), 0, rows, thread, threads);
    close_copies();
    const float* stats = s.row_stats(a.stats, t, head);
    for (int i = thread; i < rows; i += threads) {
      softmax[i].most = i < s.n ? stats[2 * i] : 0;
      softmax[i].inverse = i < s.n ? stats[2 * i + 1] : 0;
    }
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const int first = row + 16 * r;
      if (first >= rows) break;
      row_dots<D>(g + first * ld, s.low_rank(a.l, a.out, t, head), first,
                  [&](int i, float dot) { softmax[first + i].dot = dot; });
    }
    wait_copies<0>();
    __syncthreads();

    Two<T> next[R][D / 8][2];  // g's rows for iteration t - 1, while other warps still read this one's
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const int first = row + 16 * r;
      if (first >= rows) break;
      RpcGradStrip<T, D> strip;
      strip.begin(all.from(first));
      strip.add(all, first, 0, rows, s, gv[r]);
      strip.finish(s.n - first, s.scale);
      rpc_step_grad<D, T>(strip.gz[0], next[r], gu + first * D, gk + first * D, s.step(tau, first, t),
                          s.regions(a.region, t, head, first / 16, region_words(D)), gtau[r]);
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const int first = row + 16 * r;
      if (first >= rows) break;
      store_next<D>(g + first * ld, next[r]);
    }
    __syncwarp();
  }

  load_rows<D>(z, s.keys(a.kv, head), 0, rows, thread, threads);
  close_copies();
  wait_copies<0>();
  float total = 0;
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const int first = row + 16 * r;
    if (first >= rows) break;
    for_row_sums(gtau[r], [&](int i, float sum) {
      of_tau[first + i] = sum;
      total += sum;
    });
  }
  total = block_sum(total, part);
  if (s.tau_by_row) {
    if (warp_index() == 0) add_later_rows(s, tau, l1, 0, s.n, 0, of_tau);
  } else {
    for (int i = thread; i < rows; i += threads) of_tau[i] = s.tau_gradient(total, *tau, *l1);
  }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const int first = row + 16 * r;
    if (first >= rows) break;
    TileD k[1][D / 8];
    load_results(k[0], gk + first * D);
    add_signs<D>(k[0], z + first * ld, of_tau + first);
    store_strip<D>(s.keys(a.gx, head), first, k, g + first * ld);
    store_strip<D>(s.values(a.gx, head), first, gv[r], v + first * ld);
  }
}

// State in global memory between the kernels of longer heads.
template <class T> struct RpcBackwardScratch {
  float *gu, *gk, *gv;      // initially 0; stored as by save_results, [B, H, tiles, 16 D]
  float *dot, *dot_before;  // D of iterations t and t - 1, [B, H, 16 tiles]
  T *g, *g_before;          // g of the same, [B, H, N, D]
  float* gtau;              // initially 0; dLoss/dtau by row, [B, H, 16 tiles]
};
constexpr int rpc_block_rows = streaming_warps * 16;

// D of the last iteration.
template <class T, int D> __global__ void __launch_bounds__(streaming_warps* warp_size)
    rpc_last_dots_kernel(RpcBackward<T> a, float* dot, int blocks_a_head) {
  const RpcShape& s = a.shape;
  const int64_t head = blockIdx.x / blocks_a_head;
  const int block_row = int(blockIdx.x) % blocks_a_head * rpc_block_rows;
  const int own = warp_index() * 16, row = block_row + own;
  Shared shared;
  T* g = shared.array<T>(rpc_block_rows * row_stride<T, D>);
  load_rows<D>(g, s.merged(a.go, head), block_row, rpc_block_rows, int(threadIdx.x), int(blockDim.x));
  close_copies();
  wait_copies<0>();
  __syncthreads();
  if (row < s.n)
    row_dots<D>(g + own * row_stride<T, D>, s.merged(a.out, head), row,
                [&](int i, float x) { dot[head * s.tiles() * 16 + row + i] = x; });
}

// Iteration t of longer heads: a block computes dZ and dV of its rows and the gradient of their step.
template <class T, int D, int warps, int panel> __global__ void __launch_bounds__(warps* warp_size)
    rpc_iteration_gradient_kernel(RpcBackward<T> a, RpcBackwardScratch<T> w, int t, int blocks_a_head) {
  constexpr int ld = row_stride<T, D>, block_rows = warps * 16;
  const RpcShape& s = a.shape;
  const int64_t head = blockIdx.x / blocks_a_head;
  const int block_row = int(blockIdx.x) % blocks_a_head * block_rows;
  const int thread = int(threadIdx.x), own = warp_index() * 16, row = block_row + own;
  const MatrixRows<const T> zvg[] = {
      s.kept(a.z, t, head), s.values(a.kv, head),
      t + 1 == s.iterations ? s.merged(a.go, head) : s.template kept<const T>(w.g, 0, head)};
  Shared shared;
  T* rows[3];
#pragma unroll
  for (int i = 0; i < 3; ++i) rows[i] = shared.array<T>(block_rows * ld);
  Panels<T, D, 3> panels(zvg, panel, shared.array<T>(Panels<T, D, 3>::numbers(panel, s.n)));
  RowGradient* own_softmax = shared.array<RowGradient>(block_rows);
  RowGradient* panel_softmax = shared.array<RowGradient>(panel);

  const float* stats = s.row_stats(a.stats, t, head);
  const float* dots = w.dot + head * s.tiles() * 16;
  const auto load_softmax = [&](RowGradient* to, int from, int count) {
    for (int i = thread; i < count; i += int(blockDim.x)) {
      const int at = from + i;
      to[i] = at < s.n ? RowGradient{stats[2 * at], stats[2 * at + 1], dots[at]} : RowGradient{};
    }
  };
#pragma unroll
  for (int i = 0; i < 3; ++i) load_rows<D>(rows[i], zvg[i], block_row, block_rows, thread, int(blockDim.x));
  close_copies();
  load_softmax(own_softmax, block_row, block_rows);
  wait_copies<0>();
  __syncthreads();

  const bool active = row < s.n;
  const int64_t tile = head * s.tiles() + row / 16;
  RpcGradStrip<T, D> strip;
  TileD gv[1][D / 8];
  if (active) {
    const RpcGradRows<T, D> all{rows[0], rows[1], rows[2], own_softmax};
    strip.begin(all.from(own));
    load_results(gv[0], w.gv + tile * 16 * D);
  }
  panels.walk(0, s.n, [&](int from, const auto& place) {
    load_softmax(panel_softmax, from, panel);
    __syncthreads();
    if (active)
      strip.add({place[0], place[1], place[2], panel_softmax}, row, from, min(s.n, from + panel), s, gv);
  });

  if (active) {
    strip.finish(s.n - row, s.scale);
    Two<T> next[D / 8][2];
    float gtau[2] = {};
    rpc_step_grad<D, T>(strip.gz[0], next, w.gu + tile * 16 * D, w.gk + tile * 16 * D,
                        s.step(s.of_head(a.tau, head), row, t),
                        s.regions(a.region, t, head, row / 16, region_words(D)), gtau);
    for_row_sums(gtau, [&](int i, float sum) { w.gtau[tile * 16 + i] += sum; });
    T* g = rows[2] + own * ld;
    __syncwarp();
    if (t > 0) {
      save_results(gv[0], w.gv + tile * 16 * D);
      store_next<D>(g, next);
      __syncwarp();
      store_rows<D>(s.kept(w.g_before, 0, head), row, g);
      row_dots<D>(g, s.low_rank(a.l, a.out, t - 1, head), row,
                  [&](int i, float x) { w.dot_before[tile * 16 + i] = x; });
    } else {
      store_strip<D>(s.values(a.gx, head), row, gv, g);
    }
  }
}

// The remaining part of dK: the path through tau.
template <class T, int D> __global__ void __launch_bounds__(streaming_warps* warp_size)
    rpc_key_gradient_kernel(RpcBackward<T> a, RpcBackwardScratch<T> w, int blocks_a_head) {
  const RpcShape& s = a.shape;
  const int64_t head = blockIdx.x / blocks_a_head;
  const int block_row = int(blockIdx.x) % blocks_a_head * rpc_block_rows;
  const int own = warp_index() * 16, row = block_row + own;
  Shared shared;
  const int thread = int(threadIdx.x), threads = int(blockDim.x), end = min(s.n, block_row + rpc_block_rows);
  T* keys = shared.array<T>(rpc_block_rows * row_stride<T, D>);
  float* of_tau = shared.array<float>(rpc_block_rows);
  float* part = shared.array<float>(32);
  load_rows<D>(keys, s.keys(a.kv, head), block_row, rpc_block_rows, thread, threads);
  close_copies();
  wait_copies<0>();

  const float *tau = s.of_head(a.tau, head), *l1 = s.of_head(a.l1, head),
              *gtau = w.gtau + head * s.tiles() * 16;
  float sum = 0;  // over all rows; by row: over the rows after the block's
  if (s.tau_by_row) {
    for (int i = end + thread; i < s.n; i += threads) sum += s.tau_gradient(gtau[i], tau[i], l1[i]);
  } else {
    for (int i = thread; i < s.n; i += threads) sum += gtau[i];
  }
  sum = block_sum(sum, part);
  for (int i = thread; i < rpc_block_rows; i += threads)
    of_tau[i] = s.tau_by_row ? gtau[min(block_row + i, s.n - 1)] : s.tau_gradient(sum, *tau, *l1);
  __syncthreads();
  if (warp_index() == 0 && s.tau_by_row) add_later_rows(s, tau, l1, block_row, end, sum, of_tau);
  __syncthreads();
  if (row >= s.n) return;
  TileD k[1][D / 8];
  load_results(k[0], w.gk + (head * s.tiles() + row / 16) * 16 * D);
  add_signs<D>(k[0], keys + own * row_stride<T, D>, of_tau + own);
  store_strip<D>(s.keys(a.gx, head), row, k, keys + own * row_stride<T, D>);
}

// --- the launches

template <class T, int D> size_t rpc_backward_shared(int n) {
  const int rows = (n + 15) / 16 * 16;
  return 3 * shared_size<T>(rows * row_stride<T, D>) + 2 * shared_size<float>(rows * D) +
         shared_size<RowGradient>(rows) + shared_size<float>(rows) + shared_size<float>(32);
}
template <class T, int D> bool rpc_backward_on_chip(int n) {
  return D <= on_chip_head_dim && n <= on_chip_warps * 16 * strip_tiles<D> &&
         rpc_backward_shared<T, D>(n) <= shared_memory_limit();
}

// Scratch memory of rpc_backward: f32 numbers, initially 0, and numbers of type T.
template <class T, int D> int64_t rpc_backward_zeros(const RpcShape& s) {
  return rpc_backward_on_chip<T, D>(s.n) ? 0 : s.all_heads() * s.tiles() * 16 * (3 * D + 3);
}
template <class T, int D> int64_t rpc_backward_rows(const RpcShape& s) {
  return rpc_backward_on_chip<T, D>(s.n) ? 0 : 2 * s.all_heads() * s.n * s.d;
}

template <class T, int D> void rpc_backward(const RpcBackward<T>& a, float* zeros, T* rows) {
  const RpcShape& s = a.shape;
  if (rpc_backward_on_chip<T, D>(s.n)) {
    constexpr int strip = 16 * strip_tiles<D>;
    if constexpr (D <= on_chip_head_dim)
      launch<rpc_backward_kernel<T, D>>(
          {unsigned(s.all_heads()), unsigned((s.n + strip - 1) / strip * warp_size),
           rpc_backward_shared<T, D>(s.n)},
          a);
    return;
  }
  const int64_t all_rows = s.all_heads() * s.tiles() * 16, part = all_rows * D;
  float* dot = zeros + 3 * part;
  RpcBackwardScratch<T> w{zeros,
                          zeros + part,
                          zeros + 2 * part,
                          dot,
                          dot + all_rows,
                          rows,
                          rows + s.all_heads() * s.n * s.d,
                          dot + 2 * all_rows};
  constexpr int ld = row_stride<T, D>;
  const int blocks = (s.n + rpc_block_rows - 1) / rpc_block_rows;
  const unsigned all_blocks = unsigned(s.all_heads() * blocks), threads = streaming_warps * warp_size;
  const size_t own = shared_size<T>(rpc_block_rows * ld);
  launch<rpc_last_dots_kernel<T, D>>({all_blocks, threads, own}, a, w.dot, blocks);
  const auto bytes = [](Streaming b, int n) {
    return 3 * shared_size<T>(b.warps * 16 * ld) + shared_size<T>(Panels<T, D, 3>::numbers(b.panel, n)) +
           shared_size<RowGradient>(b.warps * 16) + shared_size<RowGradient>(b.panel);
  };
  for_streaming<T, D>(s.n, bytes, [&]<int warps, int panel>() {
    const int groups = (s.n + warps * 16 - 1) / (warps * 16);
    const Grid grid{unsigned(s.all_heads() * groups), warps * warp_size, bytes({warps, panel}, s.n)};
    for (int t = s.iterations - 1; t >= 0; --t) {
      launch<rpc_iteration_gradient_kernel<T, D, warps, panel>>(grid, a, w, t, groups);
      std::swap(w.dot, w.dot_before);
      std::swap(w.g, w.g_before);
    }
  });
  launch<rpc_key_gradient_kernel<T, D>>(
      {all_blocks, threads, own + shared_size<float>(rpc_block_rows) + shared_size<float>(32)}, a, w, blocks);
}

}  // namespace pursuit::cuda
#endif
