#pragma once
#include "cuda/device.h"

// Small matrix products on the tensor cores, per warp: D [16, 8] += A [16, depth] B [depth, 8], with depth 16
// for bf16 and 8 for f32. f32 numbers are split into two TF32 numbers and take three products, which keeps
// all but the last two or three of their 24 bits.
//
// Layout over the lanes (PTX ISA, mma.m16n8k16 and mma.m16n8k8), with g = lane / 4 and t = lane % 4:
//   D   v[0], v[1] at row g, columns 2t, 2t + 1; v[2], v[3] at row g + 8
//   A   rows g and g + 8; B column g. Along the depth a lane holds 2t and 2t + 1, and for bf16 also 2t + 8
//       and 2t + 9.
// The f32 instruction itself expects t and t + 4: as A and B are permuted alike, their product is the same,
// and D's numbers can be used as A's without a shuffle.
#ifdef PURSUIT_GPU
namespace pursuit::cuda {

struct TileD {
  float v[4] = {0, 0, 0, 0};
};
__device__ inline int tile_row(int i) { return int(threadIdx.x % warp_size) / 4 + i / 2 * 8; }
__device__ inline int tile_col(int i) { return int(threadIdx.x % warp_size) % 4 * 2 + i % 2; }

template <class T> constexpr int tile_depth = 16;
template <> inline constexpr int tile_depth<float> = 8;

template <class T> struct TileA;
template <class T> struct TileB;
template <> struct TileA<bf16> { uint32_t v[4]; };
template <> struct TileB<bf16> { uint32_t v[2]; };
template <> struct TileA<float> { uint32_t high[4], low[4]; };
template <> struct TileB<float> { uint32_t high[2], low[2]; };

__device__ inline uint32_t pack_bf16(bf16 first, bf16 second) {
  return uint32_t(first.bits) | uint32_t(second.bits) << 16;
}
__device__ inline uint32_t pack_bf16(float first, float second) {
#ifdef __CUDACC__
  uint32_t both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
  return both;
#else
  return pack_bf16(downcast<bf16>(first), downcast<bf16>(second));
#endif
}

// Splits x into its 11 TF32 bits, rounded, and the remainder, of which the instruction truncates at most one
// bit. Truncating instead of rounding would make all products too small, an error that accumulates. NaN stays
// NaN in the remainder.
__device__ inline void split_tf32(float x, uint32_t& high, uint32_t& low) {
  high = (__float_as_uint(x) + 0x1000u) & 0xffffe000u;
  low = __float_as_uint(x - __uint_as_float(high));
}

// The instructions.
__device__ inline void mma(TileD& d, const uint32_t (&a)[4], const uint32_t (&b)[2], Type<bf16>) {
#ifdef __CUDACC__
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d.v[0]), "+f"(d.v[1]), "+f"(d.v[2]), "+f"(d.v[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  simt::mma_bf16(d.v, a, b);
#endif
}
__device__ inline void mma(TileD& d, const uint32_t (&a)[4], const uint32_t (&b)[2], Type<float>) {
#ifdef __CUDACC__
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d.v[0]), "+f"(d.v[1]), "+f"(d.v[2]), "+f"(d.v[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  simt::mma_tf32(d.v, a, b);
#endif
}

// d += a b
__device__ inline void multiply(TileD& d, const TileA<bf16>& a, const TileB<bf16>& b) {
  mma(d, a.v, b.v, Type<bf16>{});
}
__device__ inline void multiply(TileD& d, const TileA<float>& a, const TileB<float>& b) {
  mma(d, a.low, b.high, Type<float>{});
  mma(d, a.high, b.low, Type<float>{});
  mma(d, a.high, b.high, Type<float>{});
}

// Fills tiles from the lane's own numbers: at(i, k) is row i, depth k of A, at(k, j) depth k, column j of B.
template <class F> __device__ inline void fill_a(TileA<bf16>& a, F at) {
  const int g = int(threadIdx.x % warp_size) / 4, t = int(threadIdx.x % warp_size) % 4;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = g + i % 2 * 8, k = 2 * t + i / 2 * 8;
    a.v[i] = pack_bf16(at(row, k), at(row, k + 1));
  }
}
template <class F> __device__ inline void fill_a(TileA<float>& a, F at) {
  const int g = int(threadIdx.x % warp_size) / 4, t = int(threadIdx.x % warp_size) % 4;
#pragma unroll
  for (int i = 0; i < 4; ++i) split_tf32(at(g + i % 2 * 8, 2 * t + i / 2), a.high[i], a.low[i]);
}
template <class F> __device__ inline void fill_b(TileB<bf16>& b, F at) {
  const int g = int(threadIdx.x % warp_size) / 4, t = int(threadIdx.x % warp_size) % 4;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int k = 2 * t + i * 8;
    b.v[i] = pack_bf16(at(k, g), at(k + 1, g));
  }
}
template <class F> __device__ inline void fill_b(TileB<float>& b, F at) {
  const int g = int(threadIdx.x % warp_size) / 4, t = int(threadIdx.x % warp_size) % 4;
#pragma unroll
  for (int i = 0; i < 2; ++i) split_tf32(at(2 * t + i, g), b.high[i], b.low[i]);
}

// Loads tiles from shared memory. `row` in a name: numbers along the depth are adjacent; `column`: those of
// one depth are. Rows of 16-bit numbers are 16-byte aligned.
//
// Loads four 8 x 8 matrices of 16-bit numbers (ldmatrix); lane l gives row l % 8 of matrix l / 8.
// v[m] is row lane / 4, columns 2 (lane % 4) and + 1 of matrix m, or of its transpose.
template <bool transposed> __device__ inline void load_matrices(uint32_t (&v)[4], const bf16* row) {
#ifdef __CUDACC__
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  if constexpr (transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                 : "r"(address)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                 : "r"(address)
                 : "memory");
#else
  simt::load_matrices(v, row, transposed);
#endif
}

// a[i, k] = p[i * ld + k]
__device__ inline void load_a_row(TileA<bf16>& a, const bf16* p, int ld) {
  const int l = int(threadIdx.x % warp_size);
  load_matrices<false>(a.v, p + l % 16 * ld + l / 16 * 8);
}
__device__ inline void load_a_row(TileA<float>& a, const float* p, int ld) {
  fill_a(a, [&](int i, int k) { return p[i * ld + k]; });
}
// a[i, k] = p[k * ld + i]
__device__ inline void load_a_column(TileA<bf16>& a, const bf16* p, int ld) {
  const int l = int(threadIdx.x % warp_size);
  load_matrices<true>(a.v, p + (l % 8 + l / 16 * 8) * ld + l / 8 % 2 * 8);
}
__device__ inline void load_a_column(TileA<float>& a, const float* p, int ld) {
  fill_a(a, [&](int i, int k) { return p[k * ld + i]; });
}
// Two adjacent tiles of B, columns 0 to 7 and 8 to 15: b[k, j] = p[j * ld + k]
__device__ inline void load_b_row(TileB<bf16> (&b)[2], const bf16* p, int ld) {
  const int l = int(threadIdx.x % warp_size);
  uint32_t v[4];
  load_matrices<false>(v, p + (l % 8 + l / 16 * 8) * ld + l / 8 % 2 * 8);
  b[0] = {{v[0], v[1]}};
  b[1] = {{v[2], v[3]}};
}
__device__ inline void load_b_row(TileB<float> (&b)[2], const float* p, int ld) {
#pragma unroll
  for (int half = 0; half < 2; ++half)
    fill_b(b[half], [&](int k, int j) { return p[(half * 8 + j) * ld + k]; });
}
// b[k, j] = p[k * ld + j]
__device__ inline void load_b_column(TileB<bf16> (&b)[2], const bf16* p, int ld) {
  const int l = int(threadIdx.x % warp_size);
  uint32_t v[4];
  load_matrices<true>(v, p + l % 16 * ld + l / 16 * 8);
  b[0] = {{v[0], v[1]}};
  b[1] = {{v[2], v[3]}};
}
__device__ inline void load_b_column(TileB<float> (&b)[2], const float* p, int ld) {
#pragma unroll
  for (int half = 0; half < 2; ++half)
    fill_b(b[half], [&](int k, int j) { return p[k * ld + half * 8 + j]; });
}

// Uses the results of one product as the left operand of the next: two adjacent tiles give depth 16 for bf16,
// one gives depth 8 for f32. Both take the same number of tiles of 8 columns: tile_depth<T> / 8.
__device__ inline void results_as_a(TileA<bf16>& a, const TileD* d) {
  a.v[0] = pack_bf16(d[0].v[0], d[0].v[1]);
  a.v[1] = pack_bf16(d[0].v[2], d[0].v[3]);
  a.v[2] = pack_bf16(d[1].v[0], d[1].v[1]);
  a.v[3] = pack_bf16(d[1].v[2], d[1].v[3]);
}
__device__ inline void results_as_a(TileA<float>& a, const TileD* d) {
  constexpr int order[4] = {0, 2, 1, 3};
#pragma unroll
  for (int i = 0; i < 4; ++i) split_tf32(d[0].v[order[i]], a.high[i], a.low[i]);
}

// Copies 16 bytes from global to shared memory, both 16-byte aligned, asynchronously (cp.async). Copies since
// the last close_copies() form a group; wait_copies<n>() waits until at most the n latest groups are in
// flight, for this thread's copies only: a barrier must follow before other threads read them.
__device__ inline void copy_async(void* shared, const void* global) {
#ifdef __CUDACC__
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
               :
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(shared))), "l"(global)
               : "memory");
#else
  simt::copy_later(shared, global, 16);
#endif
}
__device__ inline void close_copies() {
#ifdef __CUDACC__
  asm volatile("cp.async.commit_group;" ::: "memory");
#else
  simt::close_copy_group();
#endif
}
template <int groups_left> __device__ inline void wait_copies() {
#ifdef __CUDACC__
  asm volatile("cp.async.wait_group %0;" ::"n"(groups_left) : "memory");
#else
  simt::wait_for_copies(groups_left);
#endif
}

}  // namespace pursuit::cuda
#endif
