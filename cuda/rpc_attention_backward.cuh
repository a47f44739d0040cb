#pragma once
#include "cuda/launch.h"
#include "cuda/rpc_attention.cuh"

// RPC-Attention backward, the iterations in reverse. As scores are symmetric, S_ij serves for P_ij and P_ji
// both, and a warp that goes over the columns of its own rows finds all that these rows get:
//   dP_ij = g_i v_j,  dP_ji = g_j v_i,  E_ij = P_ij (dP_ij - D_i) + P_ji (dP_ji - D_j),
//   dZ_i = scale sum_j E_ij z_j,  dV_i = sum_j P_ji g_j,
// where g is the gradient of L = P V and D_i = sum_j P_ij dP_ij = g_i l_i. No sum is split between warps.
#ifdef PURSUIT_GPU
namespace pursuit::cuda {

template <class T>
struct RpcBackward {
  RpcShape shape;
  const T *kv, *z, *l, *out;  // as forward left them
  const uint32_t* region;
  const float *stats, *l1, *tau;
  const T* go;
  T* gx;
};

// dot[i] = row i of x [16, D] in shared memory times row first + i of y; by one warp.
template <int D, class T>
__device__ inline void row_dots(float* dot, const T* x, const HeadRows<const T>& y, int first) {
  constexpr int moves = D / per_move<T>, rows = warp_size / moves;
  const int lane = int(threadIdx.x) % warp_size, col = lane % moves * per_move<T>;
  const bool aligned = y.aligned();
#pragma unroll 1  // or the addresses of all rows would wait in registers
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
        for (int k = 0; k < per_move<T>; ++k) piece[k] = col + k < y.d ? from[k] : down<T>(0.0f);
      }
#pragma unroll
      for (int k = 0; k < per_move<T>; ++k) sum += up(piece[k]) * up(x[i * row_stride<T, D> + col + k]);
    }
#pragma unroll
    for (int o = moves / 2; o > 0; o /= 2) sum += __shfl_xor_sync(all_lanes, sum, o);
    if (col == 0) dot[i] = sum;
  }
}

// Rows in shared memory: Z, V, g and, a number a row, the softmax's stats and D.
template <class T, int D>
struct RpcGradRows {
  const T *z, *v, *g;
  const float *base, *inverse, *dot;

  __device__ RpcGradRows from(int row) const {
    const int at = row * row_stride<T, D>;
    return {z + at, v + at, g + at, base + row, inverse + row, dot + row};
  }
};

// A warp's 16 rows: dZ_i / scale and dV_i, added up over the columns.
template <class T, int D>
struct RpcGradStrip {
  TileD gz[1][D / 8];
  LeftRows<T, D, 1> z, v, g;
  float base[2], inverse[2], dot[2];

  __device__ void begin(const RpcGradRows<T, D>& own) {
    take_rows(z, own.z);
    take_rows(v, own.v);
    take_rows(g, own.g);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      base[r] = own.base[strip_row(r)];
      inverse[r] = own.inverse[strip_row(r)];
      dot[r] = own.dot[strip_row(r)];
    }
#pragma unroll
    for (int j = 0; j < D / 8; ++j) gz[0][j] = TileD{};
  }

  // Adds 16 columns. by_row: they are visible to the strip's rows; by_column: the strip's rows are visible to
  // them; on the diagonal of causal scores some are.
  template <bool by_row, bool by_column>
  __device__ void add(const RpcGradRows<T, D>& cols, bool causal_diagonal, float scale,
                      TileD (&gv)[1][D / 8]) {
    TileD e[1][2], gp[1][2], gp_back[1][2];
    product_with_rows<D>(e, z, cols.z);
    if constexpr (by_row) product_with_rows<D>(gp, g, cols.v);
    if constexpr (by_column) product_with_rows<D>(gp_back, v, cols.g);
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int first = 8 * j + tile_col(0);
      const float2 col_base = load_two(cols.base + first), col_inverse = load_two(cols.inverse + first),
                   col_dot = load_two(cols.dot + first);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int r = i / 2, above = first + i % 2 - strip_row(r);
        const float score = e[0][j].v[i] * scale;
        float sum = 0;
        if constexpr (by_row) {
          float p = power_of_2(score - base[r]) * inverse[r];
          if (causal_diagonal && above > 0) p = 0;
          sum += p * (gp[0][j].v[i] - dot[r]);
        }
        if constexpr (by_column) {
          float p = power_of_2(score - (i % 2 == 0 ? col_base.x : col_base.y)) *
                    (i % 2 == 0 ? col_inverse.x : col_inverse.y);
          if (causal_diagonal && above < 0) p = 0;
          sum += p * (gp_back[0][j].v[i] - (i % 2 == 0 ? col_dot.x : col_dot.y));
          gp_back[0][j].v[i] = p;
        }
        e[0][j].v[i] = sum;
      }
    }
    add_product<D>(gz, e, cols.z);
    if constexpr (by_column) add_product<D>(gv, gp_back, cols.g);
  }

  // Adds columns first ... end - 1 in 16s; `row` is the strip's first.
  __device__ void add(const RpcGradRows<T, D>& cols, int row, int first, int end, bool causal, float scale,
                      TileD (&gv)[1][D / 8]) {
    for (int col = first; col < end; col += 16) {
      const RpcGradRows<T, D> some = cols.from(col - first);
      if (!causal || col == row)
        add<true, true>(some, causal, scale, gv);
      else if (col < row)
        add<true, false>(some, false, scale, gv);
      else
        add<false, true>(some, false, scale, gv);
    }
  }

  // After the last column: gz is dZ for the first `rows` of the strip's rows and 0 for the others, to which
  // columns have given something all the same.
  __device__ void finish(int rows, float scale) {
    for_numbers(gz, [&](float& x, int r, int) { x = strip_row(r) < rows ? x * scale : 0; });
  }
};

// One block a head, a warp for every strip of rows. Z, V and g lie in shared memory, and in f32 dU and dK.
template <class T, int D>
__global__ void __launch_bounds__(256, D == 16 ? 2 : 1) rpc_backward_kernel(RpcBackward<T> a) {
  constexpr int R = strip_tiles<D>, ld = row_stride<T, D>;
  const RpcShape& s = a.shape;
  const int64_t head = blockIdx.x;
  const int rows = (s.n + 15) / 16 * 16, thread = int(threadIdx.x), threads = int(blockDim.x);
  const int row = thread / warp_size * 16 * R;  // the warp's first
  Shared shared;
  T* z = shared.array<T>(rows * ld);
  T* v = shared.array<T>(rows * ld);
  T* g = shared.array<T>(rows * ld);
  float* gu = shared.array<float>(rows * D);
  float* gk = shared.array<float>(rows * D);
  float* base = shared.array<float>(rows);
  float* inverse = shared.array<float>(rows);
  float* dot = shared.array<float>(rows);
  float* part = shared.array<float>(32);
  const RpcGradRows<T, D> all{z, v, g, base, inverse, dot};

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

  const float tau = a.tau[head];
  float gtau = 0;
  for (int t = s.iterations - 1; t >= 0; --t) {
    load_rows<D>(z, s.kept(a.z, t, head), 0, rows, thread, threads);
    close_copies();
    const float* stats = s.row_stats(a.stats, t, head);
    for (int i = thread; i < rows; i += threads) {
      base[i] = i < s.n ? stats[2 * i] : 0;
      inverse[i] = i < s.n ? stats[2 * i + 1] : 0;
    }
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const int first = row + 16 * r;
      if (first >= rows) break;
      row_dots<D>(dot + first, g + first * ld, s.low_rank(a.l, a.out, t, head), first);
    }
    wait_copies<0>();
    __syncthreads();

    const RpcStep step = s.step(tau, t);
    Two<T> next[R][D / 8][2];  // the rows of g for the iteration before, while others still read this one's
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const int first = row + 16 * r;
      if (first >= rows) break;
      RpcGradStrip<T, D> strip;
      strip.begin(all.from(first));
      strip.add(all, first, 0, rows, s.causal, s.scale * log2_e, gv[r]);
      strip.finish(s.n - first, s.scale);
      const float outside = rpc_step_grad<D, T>(strip.gz[0], next[r], gu + first * D, gk + first * D, step,
                                                s.regions(a.region, t, head, first / 16, region_words(D)));
      if (step.shrinks) gtau += outside;
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const int first = row + 16 * r;
      if (first >= rows) break;
#pragma unroll
      for (int j = 0; j < D / 8; ++j)
#pragma unroll
        for (int i = 0; i < 2; ++i)
          store_two(g + (first + tile_row(2 * i)) * ld + 8 * j + tile_col(0), next[r][j][i]);
    }
    __syncwarp();
  }

  load_rows<D>(z, s.keys(a.kv, head), 0, rows, thread, threads);
  close_copies();
  wait_copies<0>();
  gtau = block_sum(gtau, part);
  const float by_sign = s.tau_gradient(gtau, tau, a.l1[head]);
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const int first = row + 16 * r;
    if (first >= rows) break;
    TileD k[1][D / 8];
    load_results(k[0], gk + first * D);
    add_signs<D>(k[0], z + first * ld, by_sign);
    store_strip<D>(s.keys(a.gx, head), first, k, g + first * ld);
    store_strip<D>(s.values(a.gx, head), first, gv[r], v + first * ld);
  }
}

template <class T, int D>
size_t rpc_backward_shared(int n) {
  const int rows = (n + 15) / 16 * 16;
  return 3 * shared_size<T>(rows * row_stride<T, D>) + 2 * shared_size<float>(rows * D) +
         3 * shared_size<float>(rows) + shared_size<float>(32);
}

template <class T, int D>
void rpc_backward(const RpcBackward<T>& a) {
  constexpr int strip = 16 * strip_tiles<D>;
  const unsigned threads = unsigned((a.shape.n + strip - 1) / strip * warp_size);
  launch<rpc_backward_kernel<T, D>>(
      {unsigned(a.shape.all_heads()), threads, rpc_backward_shared<T, D>(a.shape.n)}, a);
}

}  // namespace pursuit::cuda
#endif
