#pragma once
#include "apps/examples/laboratory/gpu_meter.h"
#include "apps/examples/laboratory/sizes.h"

// C = A B for A [m, k], B [k, n] and C [m, n], row-major f32, in four versions. README.md explains each.
#ifdef PURSUIT_GPU
namespace pursuit::laboratory {

inline unsigned parts_of(int64_t size, int64_t part) { return unsigned((size + part - 1) / part); }

// --- Version 1: one thread per element of C. A warp has 32 adjacent columns, so its loads of B coalesce.

template <class Meter>
__global__ void matmul_1_kernel(Meter meter, const float* a_, const float* b_, float* c_, Sizes s) {
  const int64_t i = int64_t(blockIdx.y) * blockDim.y + threadIdx.y;
  const int64_t j = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= s.m || j >= s.n) return;
  const auto a = meter.memory(a_), b = meter.memory(b_);
  const auto c = meter.memory(c_);
  float sum = 0;
  for (int64_t l = 0; l < s.k; ++l) {
    sum += a[i * s.k + l] * b[l * s.n + j];
    meter.multiply_adds(1);
  }
  c[i * s.n + j] = sum;
}

template <class Meter> void matmul_1(Meter meter, const float* a, const float* b, float* c, Sizes s) {
  const dim3 threads(32, 8);
  start<matmul_1_kernel<Meter>>({{parts_of(s.n, threads.x), parts_of(s.m, threads.y)}, threads}, meter, a, b,
                                c, s);
}

// --- Version 2: a block computes 32 x 32 elements of C and loops over the inner dimension in steps of 32.
// Each step first copies tiles of A and B to shared memory, where every number is used by 32 threads.

constexpr int matmul_2_tile = 32;

template <class Meter>
__global__ void matmul_2_kernel(Meter meter, const float* a_, const float* b_, float* c_, Sizes s) {
  constexpr int tile = matmul_2_tile;
  cuda::Shared shared;
  const auto a_tile = meter.shared(shared.array<float>(tile * tile));  // [row, l]
  const auto b_tile = meter.shared(shared.array<float>(tile * tile));  // [l, column]
  const auto a = meter.memory(a_), b = meter.memory(b_);
  const auto c = meter.memory(c_);
  const int x = int(threadIdx.x), y = int(threadIdx.y);
  const int64_t i = int64_t(blockIdx.y) * tile + y, j = int64_t(blockIdx.x) * tile + x;
  float sum = 0;
  for (int64_t begin = 0; begin < s.k; begin += tile) {
    a_tile[y * tile + x] = i < s.m && begin + x < s.k ? float(a[i * s.k + begin + x]) : 0.0f;
    b_tile[y * tile + x] = begin + y < s.k && j < s.n ? float(b[(begin + y) * s.n + j]) : 0.0f;
    __syncthreads();
    for (int l = 0; l < tile; ++l) sum += a_tile[y * tile + l] * b_tile[l * tile + x];
    meter.multiply_adds(tile);
    __syncthreads();  // before the next step overwrites the tiles
  }
  if (i < s.m && j < s.n) c[i * s.n + j] = sum;
}

template <class Meter> void matmul_2(Meter meter, const float* a, const float* b, float* c, Sizes s) {
  constexpr int tile = matmul_2_tile;
  start<matmul_2_kernel<Meter>>(
      {{parts_of(s.n, tile), parts_of(s.m, tile)}, {tile, tile}, 2 * cuda::shared_size<float>(tile * tile)},
      meter, a, b, c, s);
}

// --- Versions 3 and 4: a block of 256 threads computes 128 x 128 elements of C, each thread 8 x 8 of them
// with sums in registers: 16 numbers read from shared memory give 64 products. Steps of 8.

constexpr int block_tile = 128, block_step = 8, block_threads = 256;
constexpr int piece = block_tile * block_step;  // of A or B, in shared memory
constexpr int64_t piece_bytes = cuda::shared_size<float>(piece);

// A thread's rows, and its columns, are 16 apart, so that adjacent threads read adjacent numbers.
template <class Meter> __global__ void __launch_bounds__(block_threads)
    matmul_3_kernel(Meter meter, const float* a_, const float* b_, float* c_, Sizes s) {
  cuda::Shared shared;
  const auto a_piece = meter.shared(shared.array<float>(piece));  // [row, l]
  const auto b_piece = meter.shared(shared.array<float>(piece));  // [l, column]
  const auto a = meter.memory(a_), b = meter.memory(b_);
  const auto c = meter.memory(c_);
  const int t = int(threadIdx.x), x = t % 16, y = t / 16;
  const int64_t i0 = int64_t(blockIdx.y) * block_tile, j0 = int64_t(blockIdx.x) * block_tile;
  float sum[8][8] = {};
  for (int64_t begin = 0; begin < s.k; begin += block_step) {
    for (int e = t; e < piece; e += block_threads) {
      const int64_t i = i0 + e / block_step, l = begin + e % block_step;
      a_piece[e] = i < s.m && l < s.k ? float(a[i * s.k + l]) : 0.0f;
    }
    for (int e = t; e < piece; e += block_threads) {
      const int64_t l = begin + e / block_tile, j = j0 + e % block_tile;
      b_piece[e] = l < s.k && j < s.n ? float(b[l * s.n + j]) : 0.0f;
    }
    __syncthreads();
#pragma unroll
    for (int l = 0; l < block_step; ++l) {
      float column[8], row[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) column[i] = a_piece[(y + 16 * i) * block_step + l];
#pragma unroll
      for (int j = 0; j < 8; ++j) row[j] = b_piece[l * block_tile + x + 16 * j];
#pragma unroll
      for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j) sum[i][j] += column[i] * row[j];
      meter.multiply_adds(64);
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 8; ++i)
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int64_t at_i = i0 + y + 16 * i, at_j = j0 + x + 16 * j;
      if (at_i < s.m && at_j < s.n) c[at_i * s.n + at_j] = sum[i][j];
    }
}

template <class Meter> void matmul_3(Meter meter, const float* a, const float* b, float* c, Sizes s) {
  start<matmul_3_kernel<Meter>>(
      {{parts_of(s.n, block_tile), parts_of(s.m, block_tile)}, block_threads, 2 * piece_bytes}, meter, a, b,
      c, s);
}

// Version 4 moves 16 bytes at a time. The tile of A is transposed, so that a thread's rows are adjacent:
// four, and four more 64 rows below; likewise its columns. Tiles are double-buffered: while one is used, the
// next is loaded through registers, and a step needs one barrier.

// Numbers [at, at + 4) of a row of `size`, zeros beyond its end. Uses one load if `packs`, that is, if all
// rows are 16-byte aligned.
template <bool packs, class Pointer>
__device__ cuda::Pack<float, 4> four_of(const Pointer& row, int64_t at, int64_t size) {
  cuda::Pack<float, 4> four{};
  if constexpr (packs) {
    if (at < size) four = load_pack<4>(row + at);
  } else {
    for (int v = 0; v < 4; ++v)
      if (at + v < size) four.v[v] = row[at + v];
  }
  return four;
}

template <bool packs, class Meter> __global__ void __launch_bounds__(block_threads)
    matmul_4_kernel(Meter meter, const float* a_, const float* b_, float* c_, Sizes s) {
  cuda::Shared shared;
  const auto a_pieces = meter.shared(shared.array<float>(2 * piece));  // [2, l, row]
  const auto b_pieces = meter.shared(shared.array<float>(2 * piece));  // [2, l, column]
  const auto a = meter.memory(a_), b = meter.memory(b_);
  const auto c = meter.memory(c_);
  const int t = int(threadIdx.x), x = t % 16 * 4, y = t / 16 * 4;
  const int64_t i0 = int64_t(blockIdx.y) * block_tile, j0 = int64_t(blockIdx.x) * block_tile;

  // The four numbers of each tile that this thread loads.
  const int a_row = t / 2, a_l = t % 2 * 4, b_l = t / 32, b_column = t % 32 * 4;
  cuda::Pack<float, 4> a_next, b_next;
  const auto fetch = [&](int64_t begin) {
    const int64_t i = i0 + a_row, l = begin + b_l;
    a_next = four_of<packs>(a + i * s.k, begin + a_l, i < s.m ? s.k : 0);
    b_next = four_of<packs>(b + l * s.n, j0 + b_column, l < s.k ? s.n : 0);
  };
  const auto put = [&](int which) {
#pragma unroll
    for (int v = 0; v < 4; ++v) a_pieces[which * piece + (a_l + v) * block_tile + a_row] = a_next.v[v];
    store_pack(b_pieces + which * piece + b_l * block_tile + b_column, b_next);
  };

  float sum[8][8] = {};
  fetch(0);
  put(0);
  __syncthreads();
  int which = 0;
  for (int64_t begin = 0; begin < s.k; begin += block_step) {
    const bool more = begin + block_step < s.k;
    if (more) fetch(begin + block_step);
#pragma unroll
    for (int l = 0; l < block_step; ++l) {
      const auto a_at = a_pieces + which * piece + l * block_tile + y;
      const auto b_at = b_pieces + which * piece + l * block_tile + x;
      const cuda::Pack<float, 4> column[2] = {load_pack<4>(a_at), load_pack<4>(a_at + 64)};
      const cuda::Pack<float, 4> row[2] = {load_pack<4>(b_at), load_pack<4>(b_at + 64)};
#pragma unroll
      for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j) sum[i][j] += column[i / 4].v[i % 4] * row[j / 4].v[j % 4];
      meter.multiply_adds(64);
    }
    if (more) put(1 - which);  // the other buffer was last read before the barrier
    __syncthreads();
    which = 1 - which;
  }

#pragma unroll
  for (int i = 0; i < 8; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int64_t at_i = i0 + y + i % 4 + i / 4 * 64, at_j = j0 + x + half * 64;
      if (at_i >= s.m) continue;
      const auto to = c + at_i * s.n + at_j;
      const float* four = &sum[i][half * 4];
      if constexpr (packs) {
        if (at_j < s.n) store_pack(to, cuda::Pack<float, 4>{{four[0], four[1], four[2], four[3]}});
      } else {
        for (int v = 0; v < 4; ++v)
          if (at_j + v < s.n) to[v] = four[v];
      }
    }
}

template <class Meter> void matmul_4(Meter meter, const float* a, const float* b, float* c, Sizes s) {
  const cuda::Grid grid{
      {parts_of(s.n, block_tile), parts_of(s.m, block_tile)}, block_threads, 4 * piece_bytes};
  const bool aligned = reinterpret_cast<uintptr_t>(a) % 16 == 0 && reinterpret_cast<uintptr_t>(b) % 16 == 0;
  if (aligned && s.n % 4 == 0 && s.k % 4 == 0)
    start<matmul_4_kernel<true, Meter>>(grid, meter, a, b, c, s);
  else
    start<matmul_4_kernel<false, Meter>>(grid, meter, a, b, c, s);
}

}  // namespace pursuit::laboratory
#endif
