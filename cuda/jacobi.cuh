#pragma once
#include "cuda/launch.h"

#ifdef PURSUIT_GPU
namespace pursuit::cuda {

// Eigenvectors of symmetric matrices of up to 64 rows by two-sided Jacobi rotations, 2 H rows and columns
// (padded with zeros) in the registers of one warp.
//
// The rows are placed on a ring of 2 H positions. In round r, lane i holds the neighbours at positions a = 2
// i + r and b = a + 1. Each of the H pairs is rotated so that its common entry vanishes, and swapped (a
// rotation by the angle + 90 degrees); the next round's neighbours are b and the next lane's a. Positions 2 H
// - 1 and 0 are not neighbours, so 2 H rounds bring every pair of rows together once (odd-even ordering) and
// reverse the rows. Of row a, a lane holds the entries k = (column - a) mod 2 H with 0 <= k <= H + 1;
// symmetry gives the others. So every index into the registers is a constant.
constexpr float jacobi_floor = 0x1p-24f;  // lower bound of diagonals, relative to the largest
constexpr int jacobi_most_sweeps = 30;

// Round r for all pairs, with this lane's rows a and b [H + 2]. With H < 32 several lanes have the same rows;
// the first of them writes. Returns whether the pair's entry exceeded tolerance times the root of the product
// of its diagonals.
template <int H>
__device__ bool jacobi_round(float* a, float* b, int r, float tolerance, float floor, float2* rotations) {
  const int lane = int(threadIdx.x) % H, position = (2 * lane + r) % (2 * H), pair = position / 2;
  const bool neighbours = position != 2 * H - 1;
  const float da = a[0], db = b[0], g = a[1];
  const bool rotated =
      neighbours && fabsf(g) > tolerance * sqrtf(fmaxf(fabsf(da), floor) * fmaxf(fabsf(db), floor));
  // The smaller angle that eliminates g; t is its tangent.
  const float x = (db - da) / (2 * g);
  const float t = g == 0 ? 0 : copysignf(1, x) / (fabsf(x) + sqrtf(1 + x * x));
  const float cosine = rsqrtf(1 + t * t), sine = t * cosine;
  const float2 own = neighbours ? make_float2(sine, -cosine) : make_float2(1, 0);
  if (neighbours) {
    a[0] = db + t * g;
    b[0] = da - t * g;
    a[1] = 0;
  }
  if (int(threadIdx.x) < H) rotations[pair] = own;
  __syncwarp();
  // The block of rows a, b and the columns of lane + d.
#pragma unroll
  for (int d = 1; d <= H / 2; ++d) {
    const float2 other = rotations[(pair + d) % H];
    float &aa = a[2 * d], &ab = a[2 * d + 1], &ba = b[2 * d - 1], &bb = b[2 * d];
    const float upper_a = own.x * aa - own.y * ba, lower_a = own.y * aa + own.x * ba;
    const float upper_b = own.x * ab - own.y * bb, lower_b = own.y * ab + own.x * bb;
    aa = other.x * upper_a - other.y * upper_b;
    ab = other.y * upper_a + other.x * upper_b;
    ba = other.x * lower_a - other.y * lower_b;
    bb = other.y * lower_a + other.x * lower_b;
  }
  // Row b becomes the next a; its last entry is in the row H + 1 positions further.
  b[H + 1] = __shfl_sync(all_lanes, a[H - 1], lane + H / 2 + 1, H);
#pragma unroll
  for (int k = 0; k <= H; ++k) a[k] = __shfl_sync(all_lanes, a[k], lane + 1, H);
  return rotated;
}

// Applies the rotations of one sweep to one row v.
template <int H> __device__ void jacobi_turn(float* v, const float2* rotations) {
  for (int r = 0; r < 2 * H; r += 2) {
#pragma unroll
    for (int odd = 0; odd < 2; ++odd) {
#pragma unroll
      for (int j = 0; j < H - odd; ++j) {
        const float2 cs = rotations[(r + odd) * H + j];
        float &x = v[2 * j + odd], &y = v[2 * j + odd + 1];
        const float turned = cs.x * x - cs.y * y;
        y = cs.y * x + cs.x * y;
        x = turned;
      }
    }
  }
}

// g [gridDim.x, n, n] symmetric, v [gridDim.x, n, n]: row j becomes an eigenvector, unsorted, orthogonal to
// about 1e-5 (the error of hundreds of rounded rotations). Sweeps until one meets no entry larger than
// tolerance, which leaves much smaller ones. The first warp rotates g; the others, one sweep behind, rotate
// v, each thread one component of all vectors. A matrix with NaN gives NaN.
template <int H> __global__ void __launch_bounds__(H < 16 ? 64 : 32 + 2 * H, 1)
    jacobi_kernel(const float* g, float* v, int n, float tolerance) {
  Shared shared;
  float2* rotations = shared.array<float2>(2 * 2 * H * H);  // [sweep % 2, round, pair]
  int* rotated = shared.array<int>(2);                      // [sweep % 2]
  g += blockIdx.x * int64_t(n) * n;
  v += blockIdx.x * int64_t(n) * n;
  const bool rotates = threadIdx.x < warp_size;
  float x[2 * H + 4];  // two rows of g, or one of v
  float *a = x, *b = x + H + 2, floor = 0;
  const int row = rotates ? int(threadIdx.x) % H * 2 : int(threadIdx.x) - warp_size;
  if (rotates) {
    const auto entry = [&](int i, int k) {
      const int j = (i + k) % (2 * H);
      return i < n && j < n ? g[i * n + j] : 0.0f;
    };
#pragma unroll
    for (int k = 0; k < H + 2; ++k) {
      a[k] = entry(row, k);
      b[k] = entry(row + 1, k);
    }
    floor = jacobi_floor * warp_max(fmaxf(fabsf(a[0]), fabsf(b[0])));
  } else {
#pragma unroll
    for (int p = 0; p < 2 * H; ++p) x[p] = p == row ? 1 : 0;
  }
  const auto list = [&](int sweep) { return rotations + sweep % 2 * 2 * H * H; };
  int sweep = 0;
  for (bool more = true;; ++sweep) {
    if (!rotates && sweep > 0) jacobi_turn<H>(x, list(sweep - 1));
    if (!more) break;
    if (rotates) {
      bool any = false;
      for (int r = 0; r < 2 * H; r += 2) {
        any |= jacobi_round<H>(a, b, r, tolerance, floor, list(sweep) + r * H);
        any |= jacobi_round<H>(b, a, r + 1, tolerance, floor, list(sweep) + (r + 1) * H);
      }
      any = __any_sync(all_lanes, any) && sweep + 1 < jacobi_most_sweeps;
      if (threadIdx.x == 0) rotated[sweep % 2] = any;
    }
    __syncthreads();
    more = rotated[sweep % 2];
  }
  if (rotates) return;
#pragma unroll
  for (int p = 0; p < 2 * H; ++p) {
    // The original position of the row that is now at p; rows from n on are padding.
    const int j = sweep % 2 ? 2 * H - 1 - p : p;
    if (row < n && j < n) v[j * n + row] = x[p];
  }
}

template <int H> void launch_jacobi(int64_t batch, int64_t n, const float* g, float* v, float tolerance) {
  const unsigned threads = H < 16 ? 64 : 32 + 2 * H;
  launch<jacobi_kernel<H>>(
      {unsigned(batch), threads, shared_size<float2>(2 * 2 * H * H) + shared_size<int>(2)}, g, v, int(n),
      tolerance);
}

constexpr int64_t jacobi_largest = 64;

// Eigenvectors of `batch` symmetric matrices g [n, n] of at most jacobi_largest rows, as the rows of v.
// Remaining off-diagonal entries are at most tolerance times the root of their diagonals.
inline void jacobi(int64_t batch, int64_t n, const float* g, float* v, float tolerance) {
  (n <= 16 ? launch_jacobi<8> : n <= 32 ? launch_jacobi<16> : launch_jacobi<32>)(batch, n, g, v, tolerance);
}

}  // namespace pursuit::cuda
#endif
