#pragma once
#include "cuda/launch.h"
#include "cuda/rpc_attention.cuh"

// RPC-Attention forward. Heads that fit on one multiprocessor are one block each, for all iterations
// (rpc_forward_kernel); longer ones take a kernel an iteration that streams their keys and values.
#ifdef PURSUIT_GPU
namespace pursuit::cuda {

template <class T>
struct RpcForward {
  RpcShape shape;
  const T* kv;
  const float* mu;   // [B, H], or null: from the keys
  T *z, *l;          // kept: Z of all iterations, L of all but the last
  uint32_t* region;  // kept
  float* stats;      // kept
  float *l1, *tau;   // [B, H]: ||K||_1 and the threshold
  T* out;
};

// A warp's strip of softmax(scale Z Z^T) V: R tiles of 16 rows, with Z's rows in shared memory and the
// columns coming in chunks. A row's powers are taken relative to its own score z_i z_i, which is always among
// them, or to a greater one if one exceeds that by so much that powers might grow out of hand; in most chunks
// there is then nothing to rescale.
template <class T, int D, int R>
struct RpcStrip {
  static constexpr int ld = row_stride<T, D>;
  static constexpr float headroom = 16;                                     // powers up to 2^16
  static constexpr int chunk = std::is_same_v<T, bf16> && D <= 64 ? 4 : 2;  // tiles of 8 columns

  TileD out[R][D / 8];
  float base[2 * R], total[2 * R];
  LeftRows<T, D, R> left;

  __device__ void begin(const T* z, float scale) {
    take_rows(left, z);
#pragma unroll
    for (int r = 0; r < 2 * R; ++r) {
      float square = 0;
#pragma unroll
      for (int j = 0; j < D / 8; ++j) {
        const float2 pair = load_two(z + strip_row(r) * ld + 8 * j + tile_col(0));
        square += pair.x * pair.x + pair.y * pair.y;
      }
      base[r] = row_sum(square) * scale;
      total[r] = 0;
    }
#pragma unroll
    for (int r = 0; r < R; ++r)
#pragma unroll
      for (int j = 0; j < D / 8; ++j) out[r][j] = TileD{};
  }

  // Adds columns first ... end - 1, whose rows of Z and V begin at z and v; `row` is the strip's first.
  __device__ void add(const T* z, const T* v, int row, int first, int end, const RpcShape& s, float scale) {
    int col = first;
    for (; end - col > 8 * (chunk - 2); col += 8 * chunk, z += 8 * chunk * ld, v += 8 * chunk * ld)
      add_chunk<chunk>(z, v, row, col, s, scale);
    if (col < end) add_chunk<2>(z, v, row, col, s, scale);
  }

  // After the last column: divides by the sums, and writes the rows' stats.
  __device__ void finish(int row, const RpcShape& s, float* stats) {
#pragma unroll
    for (int r = 0; r < 2 * R; ++r) {
      total[r] = 1 / row_sum(total[r]);
      const int i = row + strip_row(r);
      if (threadIdx.x % 4 == 0 && i < s.n) store_two(stats + 2 * i, make_float2(base[r], total[r]));
    }
    scale_rows(out, total);
  }

 private:
  template <int J>
  __device__ void add_chunk(const T* z, const T* v, int row, int col, const RpcShape& s, float scale) {
    TileD p[R][J];
    product_with_rows<D>(p, left, z);
    const int end = col + 8 * J;
    const bool hides = end > s.n || (s.causal && end > row + 1);
    float most = 0;
    for_numbers(p, [&](float& x, int r, int c) {
      x = x * scale - base[r];
      const int j = col + chunk_col(c);
      if (hides && (j >= s.n || (s.causal && j > row + strip_row(r)))) x = -INFINITY;
      most = fmaxf(most, x);
    });
    if (__any_sync(all_lanes, most > headroom)) raise(p);
    for_numbers(p, [&](float& x, int r, int) {
      x = power_of_2(x);
      total[r] += x;
    });
    add_product<D>(out, p, v);
  }

  // Takes p's rows and what was added up relative to their greatest numbers.
  template <int J>
  __device__ void raise(TileD (&p)[R][J]) {
    float above[2 * R] = {}, fade[2 * R];
    for_numbers(p, [&](float x, int r, int) { above[r] = fmaxf(above[r], x); });
#pragma unroll
    for (int r = 0; r < 2 * R; ++r) {
      above[r] = row_max(above[r]);
      base[r] += above[r];
      fade[r] = power_of_2(-above[r]);
      total[r] *= fade[r];
    }
    scale_rows(out, fade);
    for_numbers(p, [&](float& x, int r, int) { x -= above[r]; });
  }
};

// One block a head, a warp for every strip of rows. K, V and Z lie in shared memory.
template <class T, int D>
__global__ void __launch_bounds__(256, D == 16 ? 2 : 1) rpc_forward_kernel(RpcForward<T> a) {
  constexpr int R = strip_tiles<D>, ld = row_stride<T, D>;
  const RpcShape& s = a.shape;
  const int64_t head = blockIdx.x;
  const int rows = int(blockDim.x) / warp_size * 16 * R;
  const int row = int(threadIdx.x) / warp_size * 16 * R;  // the warp's first
  Shared shared;
  T* k = shared.array<T>(rows * ld);
  T* v = shared.array<T>(rows * ld);
  T* z = shared.array<T>(rows * ld);
  float* part = shared.array<float>(32);
  load_rows<D>(k, s.keys(a.kv, head), 0, rows, int(threadIdx.x), int(blockDim.x));
  load_rows<D>(v, s.values(a.kv, head), 0, rows, int(threadIdx.x), int(blockDim.x));
  close_copies();
  wait_copies<0>();
  __syncthreads();

  float sum = 0;
  for (int e = int(threadIdx.x); e < rows * D; e += int(blockDim.x)) sum += fabsf(up(k[e / D * ld + e % D]));
  const float l1 = block_sum(sum, part);
  const float tau = s.threshold(a.mu ? a.mu[head] : s.mu_times_l1 / l1);
  if (threadIdx.x == 0) {
    a.l1[head] = l1;
    a.tau[head] = tau;
  }

  const float scale = s.scale * log2_e;
  const int end = s.causal ? min(s.n, row + 16 * R) : s.n;
  TileD w[R][D / 8];
  RpcStrip<T, D, R> strip;
  for (int t = 0; t < s.iterations; ++t) {
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const int first = row + 16 * r;
      rpc_step<D>(k + first * ld, z + first * ld, w[r], strip.out[r], s.step(tau, t),
                  s.regions(a.region, t, head, first / 16, region_words(D)));
      __syncwarp();
      store_rows<D>(s.kept(a.z, t, head), first, z + first * ld);
    }
    __syncthreads();
    strip.begin(z + row * ld, scale);
    strip.add(z, v, row, 0, end, s, scale);
    strip.finish(row, s, s.row_stats(a.stats, t, head));
    __syncthreads();
    store_strip<D>(s.low_rank(a.l, a.out, t, head), row, strip.out, z + row * ld);
    __syncwarp();
  }
}

// Rows of the one block, and their shared memory.
template <int D>
int on_chip_rows(int n) {
  constexpr int strip = 16 * strip_tiles<D>;
  return (n + strip - 1) / strip * strip;
}
template <class T, int D>
size_t rpc_forward_shared(int rows) {
  return 3 * shared_size<T>(rows * row_stride<T, D>) + shared_size<float>(32);
}

template <class T, int D>
bool rpc_forward_on_chip(int n) {
  const int rows = on_chip_rows<D>(n);
  return rows <= 8 * 16 * strip_tiles<D> && rpc_forward_shared<T, D>(rows) <= shared_memory_limit();
}

template <class T, int D>
void rpc_forward(const RpcForward<T>& a) {
  const int rows = on_chip_rows<D>(a.shape.n);
  const unsigned threads = unsigned(rows / (16 * strip_tiles<D>)*warp_size);
  launch<rpc_forward_kernel<T, D>>({unsigned(a.shape.all_heads()), threads, rpc_forward_shared<T, D>(rows)},
                                   a);
}

}  // namespace pursuit::cuda
#endif
