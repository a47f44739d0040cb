#pragma once
#include <utility>

#include "cuda/launch.h"
#include "cuda/rpc_attention.cuh"

// RPC-Attention forward. Heads that fit on one multiprocessor take one block each for all iterations
// (rpc_forward_kernel); longer ones take one kernel per iteration, which streams their keys and values.
#ifdef PURSUIT_GPU
namespace pursuit::cuda {

template <class T> struct RpcForward {
  RpcShape shape;
  const T* kv;
  const float* mu;   // [B, H], or null: computed from the keys
  T *z, *l;          // saved: Z of all iterations, L of all but the last
  uint32_t* region;  // saved
  float* stats;      // saved
  float *l1, *tau;   // [B, H, taus]: ||K||_1 and the threshold
  T* out;

  // Stores the head's ||K||_1 and tau for the threads of its block. key(row, col) returns K.
  template <class Key> __device__ void find_thresholds(int64_t head, const Key& key, float* part) const {
    const int warps = int(blockDim.x) / warp_size;
    float *norm = shape.of_head(l1, head), *limit = shape.of_head(tau, head), sum = 0;
    for (int row = warp_index(); row < shape.n; row += warps) {
      float of_row = 0;
      for (int col = lane_index(); col < shape.d; col += warp_size) of_row += fabsf(upcast(key(row, col)));
      sum += of_row;
      if (!shape.tau_by_row) continue;
      of_row = warp_sum(of_row);
      if (lane_index() == 0) norm[row] = of_row;
    }
    sum = block_sum(sum, part);
    if (threadIdx.x == 0 && !shape.tau_by_row) {
      *norm = sum;
      *limit = shape.threshold(mu ? mu[head] : shape.mu_times_l1 / sum);
    }
    if (warp_index() == 0 && shape.tau_by_row)
      running_sums(
          shape.n, 0, [&](int row) { return norm[row]; },
          [&](int row, float so_far) {
            norm[row] = so_far;
            limit[row] = shape.threshold(shape.mu_times_l1 * float(row + 1) / so_far);
          });
    __syncthreads();
  }
};

// A warp's strip of softmax(scale Z Z^T) V while it is accumulated: R tiles of 16 rows, with their Z in
// shared memory.
template <class T, int D, int R> struct RpcStrip {
  static constexpr int ld = row_stride<T, D>;
  static constexpr int wide = std::is_same_v<T, bf16> && D <= 64 ? 4 : 2;  // tiles of 8 columns per step

  TileD out[R][D / 8];
  RowSoftmax<R> softmax;
  LeftRows<T, D, R> rows;

  __device__ void begin(const T* z) {
    take_rows(rows, z);
    softmax = {};
#pragma unroll
    for (int r = 0; r < R; ++r)
#pragma unroll
      for (int j = 0; j < D / 8; ++j) out[r][j] = {};
  }

  // Accumulates columns first ... end - 1, whose Z and V start at z and v; `row` is the strip's first.
  __device__ void add(const T* z, const T* v, int row, int first, int end, const RpcShape& s) {
    int col = first;
    for (; end - col > 8 * (wide - 2); col += 8 * wide, z += 8 * wide * ld, v += 8 * wide * ld)
      add_chunk<wide>(z, v, row, col, s);
    if (col < end) add_chunk<2>(z, v, row, col, s);
  }

  // After the last column: divides by the sums and writes the rows' stats.
  __device__ void finish(int row, const RpcShape& s, float* stats) {
    softmax.finish();
    scale_rows(out, softmax.total);
#pragma unroll
    for (int r = 0; r < 2 * R; ++r) {
      const int i = row + strip_row(r);
      if (threadIdx.x % 4 == 0 && i < s.n)
        store_two(stats + 2 * i, make_float2(softmax.most[r], softmax.total[r]));
    }
  }

 private:
  template <int J> __device__ void add_chunk(const T* z, const T* v, int row, int col, const RpcShape& s) {
    TileD p[R][J];
    product_with_rows<D>(p, rows, z);
    // The operator refuses a negative scale; without this line nvcc 13 spills registers.
    if (s.scale < 0) scale(p, -1);
    hide(p, -INFINITY, row, col, s.n, s.causal);
    const float factor = fabsf(s.scale) * log2_e;
    float fade[2 * R];
    if (softmax.grow(p, factor, fade)) scale_rows(out, fade);
    softmax.add(p, factor);
    add_product<D>(out, p, v);
  }
};

// Blocks take one head after the other, and the next one's K and V arrive meanwhile. In f32 there is no
// memory for that, or two blocks on a multiprocessor wait in turns: a block takes one head.
template <class T> constexpr bool rpc_prefetches = std::is_same_v<T, bf16>;

// A block takes heads blockIdx.x, blockIdx.x + gridDim.x and so on, with one warp per strip of rows. K, V and
// Z are in shared memory; with two `buffers` K and V of the next head too.
template <class T, int D> __global__ void __launch_bounds__(256, D == 16 ? 2 : 1)
    rpc_forward_kernel(RpcForward<T> a, int buffers) {
  constexpr int R = strip_tiles<D>, ld = row_stride<T, D>;
  const RpcShape& s = a.shape;
  const int rows = int(blockDim.x) / warp_size * 16 * R;
  const int row = warp_index() * 16 * R;  // first row of the warp
  Shared shared;
  T* k = shared.array<T>(2 * rows * ld);  // and V
  T* z = shared.array<T>(rows * ld);
  float* part = shared.array<float>(32);
  T* next_k = buffers == 2 ? shared.array<T>(2 * rows * ld) : k;
  const auto load = [&](int64_t head, T* to) {
    load_rows<D>(to, s.keys(a.kv, head), 0, rows, int(threadIdx.x), int(blockDim.x));
    load_rows<D>(to + rows * ld, s.values(a.kv, head), 0, rows, int(threadIdx.x), int(blockDim.x));
    close_copies();
  };
  load(blockIdx.x, k);

  const int heads = int(s.all_heads());
  for (int head = int(blockIdx.x); head < heads; head += int(gridDim.x)) {
    wait_copies<0>();
    __syncthreads();
    const int next = head + int(gridDim.x);
    if (rpc_prefetches<T> && buffers == 2 && next < heads) load(next, next_k);

    a.find_thresholds(
        head, [&](int i, int j) { return k[i * ld + j]; }, part);
    const float* tau = s.of_head(a.tau, head);

    const int end = s.causal ? min(s.n, row + 16 * R) : s.n;
    TileD w[R][D / 8];
    RpcStrip<T, D, R> strip;
    for (int t = 0; t < s.iterations; ++t) {
#pragma unroll
      for (int r = 0; r < R; ++r) {
        const int first = row + 16 * r;
        rpc_step<D>(k + first * ld, z + first * ld, w[r], strip.out[r], s.step(tau, first, t),
                    s.regions(a.region, t, head, first / 16, region_words(D)));
        __syncwarp();
        store_rows<D>(s.kept(a.z, t, head), first, z + first * ld);
      }
      __syncthreads();
      strip.begin(z + row * ld);
      strip.add(z, k + rows * ld, row, 0, end, s);
      strip.finish(row, s, s.row_stats(a.stats, t, head));
      __syncthreads();
      store_strip<D>(s.low_rank(a.l, a.out, t, head), row, strip.out, z + row * ld);
      __syncwarp();
    }
    if constexpr (!rpc_prefetches<T>) return;
    if (buffers == 1 && next < heads) load(next, k);  // no warp reads this head's any more
    std::swap(k, next_k);
  }
}

// The same for longer heads: tau and the first step. w: W stored as by save_results, [B, H, tiles, 16
// D].
template <class T, int D> constexpr int rpc_begin_warps = D * sizeof(T) <= 256 ? 8 : 4;
template <class T, int D> __global__ void __launch_bounds__(rpc_begin_warps<T, D>* warp_size)
    rpc_begin_kernel(RpcForward<T> a, float* w) {
  constexpr int ld = row_stride<T, D>, rows = rpc_begin_warps<T, D> * 16;
  const RpcShape& s = a.shape;
  const int64_t head = blockIdx.x;
  const int thread = int(threadIdx.x), own = warp_index() * 16;
  Shared shared;
  T* k = shared.array<T>(rows * ld);
  T* z = shared.array<T>(rows * ld);
  float* part = shared.array<float>(32);
  const MatrixRows<const T> keys = s.keys(a.kv, head);

  a.find_thresholds(
      head, [&](int i, int j) { return keys.at(i)[j]; }, part);

  for (int from = 0; from < s.tiles() * 16; from += rows) {
    __syncthreads();
    load_rows<D>(k, keys, from, rows, thread, int(blockDim.x));
    close_copies();
    wait_copies<0>();
    __syncthreads();
    const int tile = (from + own) / 16;
    if (tile >= s.tiles()) continue;
    TileD w_new[D / 8], l[D / 8];
    rpc_step<D>(k + own * ld, z + own * ld, w_new, l, s.step(s.of_head(a.tau, head), tile * 16, 0),
                s.regions(a.region, 0, head, tile, region_words(D)));
    save_results(w_new, w + (head * s.tiles() + tile) * 16 * D);
    __syncwarp();
    store_rows<D>(s.kept(a.z, 0, head), tile * 16, z + own * ld);
  }
}

// Iteration t of longer heads: a block computes L and the next Z for the rows of its warps' strips.
template <class T, int D, int warps, int panel> __global__ void __launch_bounds__(warps* warp_size)
    rpc_iteration_kernel(RpcForward<T> a, float* w, int t, int blocks_a_head) {
  constexpr int R = strip_tiles<D>, ld = row_stride<T, D>, rows = warps * 16 * R;
  const RpcShape& s = a.shape;
  const int64_t head = blockIdx.x / blocks_a_head;
  const int block_row = int(blockIdx.x) % blocks_a_head * rows, thread = int(threadIdx.x);
  const int own = warp_index() * 16 * R, row = block_row + own;  // first row of the warp
  const MatrixRows<const T> zv[] = {s.kept<const T>(a.z, t, head), s.values(a.kv, head)};
  Shared shared;
  T* k = shared.array<T>(rows * ld);
  T* z = shared.array<T>(rows * ld);
  Panels<T, D, 2> panels(zv, panel, shared.array<T>(Panels<T, D, 2>::numbers(panel, s.n)));
  load_rows<D>(k, s.keys(a.kv, head), block_row, rows, thread, int(blockDim.x));
  load_rows<D>(z, zv[0], block_row, rows, thread, int(blockDim.x));
  close_copies();
  wait_copies<0>();
  __syncthreads();

  const int end = row >= s.n ? 0 : s.causal ? min(s.n, row + 16 * R) : s.n;
  RpcStrip<T, D, R> strip;
  strip.begin(z + own * ld);
  panels.walk(0, s.causal ? min(s.n, block_row + rows) : s.n, [&](int from, const auto& part) {
    strip.add(part[0], part[1], row, from, min(end, from + panel), s);
  });
  if (row >= s.n) return;
  strip.finish(row, s, s.row_stats(a.stats, t, head));
  store_strip<D>(s.low_rank(a.l, a.out, t, head), row, strip.out, z + own * ld);
  if (t + 1 == s.iterations) return;
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const int at = (own + 16 * r) * ld, tile = row / 16 + r;
    float* w_tile = w + (head * s.tiles() + tile) * 16 * D;
    TileD w_new[D / 8];
    load_results(w_new, w_tile);
    __syncwarp();
    rpc_step<D>(k + at, z + at, w_new, strip.out[r], s.step(s.of_head(a.tau, head), tile * 16, t + 1),
                s.regions(a.region, t + 1, head, tile, region_words(D)));
    save_results(w_new, w_tile);
    __syncwarp();
    store_rows<D>(s.kept(a.z, t + 1, head), tile * 16, z + at);
  }
}

// --- the launches

// Rows and shared memory of a head's block, if it fits on chip.
template <int D> int rpc_forward_rows(int n) {
  constexpr int strip = 16 * strip_tiles<D>;
  return (n + strip - 1) / strip * strip;
}
template <class T, int D> size_t rpc_forward_shared(int n, int buffers = 1) {
  return (1 + 2 * buffers) * shared_size<T>(rpc_forward_rows<D>(n) * row_stride<T, D>) +
         shared_size<float>(32);
}
// If blocks prefetch, there is one for every place on the GPU, with two buffers if that costs no places.
template <class T, int D> void rpc_forward_blocks(const RpcForward<T>& a) {
  const RpcShape& s = a.shape;
  const auto grid = [&](int buffers) {
    constexpr int strip = 16 * strip_tiles<D>;
    return Grid{unsigned(s.all_heads()), unsigned(rpc_forward_rows<D>(s.n) / strip * warp_size),
                rpc_forward_shared<T, D>(s.n, buffers)};
  };
  Grid g = grid(1);
  int buffers = 1;
  if constexpr (rpc_prefetches<T>) {
    const auto places = [](const Grid& g) {
      return g.shared > shared_memory_limit() ? 0 : resident_blocks<rpc_forward_kernel<T, D>>(g);
    };
    const int most = places(g);
    if (places(grid(2)) == most) g = grid(buffers = 2);
    g.blocks = blocks_for(s.all_heads(), 1, int64_t(most) * multiprocessors());
  }
  launch<rpc_forward_kernel<T, D>>(g, a, buffers);
}

template <class T, int D> bool rpc_forward_on_chip(int n) {
  return D <= on_chip_head_dim && rpc_forward_rows<D>(n) <= on_chip_warps * 16 * strip_tiles<D> &&
         rpc_forward_shared<T, D>(n) <= shared_memory_limit();
}

// Scratch numbers that rpc_forward needs.
template <class T, int D> int64_t rpc_forward_scratch(const RpcShape& s) {
  return rpc_forward_on_chip<T, D>(s.n) ? 0 : s.all_heads() * s.tiles() * 16 * D;
}

template <class T, int D> void rpc_forward(const RpcForward<T>& a, float* w) {
  const RpcShape& s = a.shape;
  constexpr int strip = 16 * strip_tiles<D>, ld = row_stride<T, D>;
  if (rpc_forward_on_chip<T, D>(s.n)) {
    if constexpr (D <= on_chip_head_dim) rpc_forward_blocks<T, D>(a);
    return;
  }
  constexpr int begin_warps = rpc_begin_warps<T, D>;
  launch<rpc_begin_kernel<T, D>>({unsigned(s.all_heads()), begin_warps * warp_size,
                                  2 * shared_size<T>(begin_warps * 16 * ld) + shared_size<float>(32)},
                                 a, w);
  const auto bytes = [](Streaming b, int n) {
    return 2 * shared_size<T>(b.warps * strip * ld) + shared_size<T>(Panels<T, D, 2>::numbers(b.panel, n));
  };
  for_streaming<T, D>(s.n, bytes, [&]<int warps, int panel>() {
    const int blocks = (s.n + warps * strip - 1) / (warps * strip);
    const Grid grid{unsigned(s.all_heads() * blocks), warps * warp_size, bytes({warps, panel}, s.n)};
    for (int t = 0; t < s.iterations; ++t)
      launch<rpc_iteration_kernel<T, D, warps, panel>>(grid, a, w, t, blocks);
  });
}

}  // namespace pursuit::cuda
#endif
