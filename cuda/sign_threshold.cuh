#pragma once
#include "cuda/launch.h"
#include "cuda/tile.h"

// Singular value thresholding by matrix products only. With the polar factor Q = A (A^T A)^(-1/2) of a tall A
// and S = sign(B) of the symmetric B = Q^T A - tau I,
//
//   D_tau(A) = Q (Q^T A - tau I)_+ = Q (B + S^T B) / 2.
//
// A polar factor is the limit of X <- X p(X^T X - I), starting at A divided by a bound on its largest
// singular value: singular vectors stay and all singular values converge to 1. Those below tau need not
// converge: any q <= 1 makes q sigma - tau negative, and they vanish. A value tau + x contributes x sign(x),
// so an unfinished sign costs no more than x. The error is due to rounding only, whatever the spectrum: about
// 1e-6 sigma_1.
#ifdef PURSUIT_GPU
namespace pursuit::cuda {

// x -> x (alpha + beta e + delta e^2) with e = x^2 - 1. The lift is the minimax approximation of 1 on [0.1,
// 1], divided by its maximum there: it multiplies small x by 3.8 and maps no x in [0.1, 1.01] below 0.37.
// Steeper polynomials would map some large singular values almost to 0, and their rounding errors would
// remain and grow. The next two are the same for the interval that the previous one leaves (Amsel et al.,
// "The Polar Express", 2025); the last is the series of sign(x) at 1.
struct SignStep {
  float alpha, beta, delta;
};
__device__ inline SignStep sign_step_of(int i, int lifts) {
  if (i < lifts) return {0.91773225f, 3.47226133f, 6.37188690f};
  if (i == lifts) return {0.98011756f, 0.44907697f, 2.36379966f};
  if (i == lifts + 1) return {0.99978008f, -0.49158223f, 0.49437154f};
  return {1, -0.5f, 0.375f};
}
constexpr int sign_steps_after_lifts = 3;
constexpr float sign_lift_factor = 3.8173579f;  // at 0
constexpr float sign_lifted = 0.3725f;          // lower end of the interval after lifting
// For B, whose eigenvalues are arbitrary: after 8 lifts only those below 1e-5 have not converged.
constexpr int sign_lifts = 8, sign_most_lifts = 16;

// Warps per matrix of K columns, stored in rows of sign_stride numbers.
template <int K> constexpr int sign_warps = K < 64 ? 4 : 8;
template <int K> constexpr int sign_stride = K + 4;

// d += a b, accumulated in f32 with rounding to nearest. The tensor cores truncate their own sums toward 0,
// which becomes visible after hundreds of terms.
__device__ inline void multiply_rounded(TileD& d, const TileA<float>& a, const TileB<float>& b) {
  TileD part;
  multiply(part, a, b);
#pragma unroll
  for (int i = 0; i < 4; ++i) d.v[i] += part.v[i];
}

// d [16, 8 J] = left right over `depth`: left(a, k) and right(b, k, j) load the operands at depth k, right
// those of columns 8 j to 8 j + 15.
template <int J, class Left, class Right>
__device__ void tile_product(TileD (&d)[J], int depth, Left left, Right right) {
#pragma unroll
  for (int j = 0; j < J; ++j) d[j] = {};
  for (int k = 0; k < depth; k += tile_depth<float>) {
    TileA<float> a;
    left(a, k);
#pragma unroll
    for (int j = 0; j < J; j += 2) {
      TileB<float> b[2];
      right(b, k, j);
      multiply_rounded(d[j], a, b[0]);
      multiply_rounded(d[j + 1], a, b[1]);
    }
  }
}

// A warp's part of a matrix [K, K]: 16 rows and 8 J columns.
template <int K> struct SquareTile {
  static constexpr int J = K * K / (128 * sign_warps<K>), ld = sign_stride<K>;
  TileD d[J];

  __device__ static int row() { return int(threadIdx.x) / warp_size % (K / 16) * 16; }
  __device__ static int col() { return int(threadIdx.x) / warp_size / (K / 16) * (8 * J); }

  // x^T y for x [depth, K] in rows of ld numbers and any matrix y(k, j).
  template <class Y> __device__ void transposed_product(int depth, const float* x, Y y) {
    tile_product(
        d, depth, [&](TileA<float>& a, int k) { load_a_column(a, x + k * ld + row(), ld); },
        [&](TileB<float>(&b)[2], int k, int j) {
#pragma unroll
          for (int half = 0; half < 2; ++half)
            fill_b(b[half], [&](int i, int c) { return y(k + i, col() + (j + half) * 8 + c); });
        });
  }
  // Calls f(number, row, column).
  template <class F> __device__ void for_each(F f) {
#pragma unroll
    for (int j = 0; j < J; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) f(d[j].v[i], row() + tile_row(i), col() + 8 * j + tile_col(i));
  }
  // Stores to `to` after a barrier; the block may read it afterwards.
  __device__ void store(float* to) {
    __syncthreads();
    for_each([&](float x, int i, int j) { to[i * ld + j] = x; });
    __syncthreads();
  }
};

// A strip of 16 rows of x times w [K, K].
template <int K> __device__ void strip_product(TileD (&d)[K / 8], const float* x, const float* w) {
  constexpr int ld = sign_stride<K>;
  tile_product(
      d, K, [&](TileA<float>& a, int k) { load_a_row(a, x + k, ld); },
      [&](TileB<float>(&b)[2], int k, int j) { load_b_column(b, w + k * ld + j * 8, ld); });
}

// x [rows, K] <- x p(x^T x - I); g is scratch memory for a square.
template <int K> __device__ void sign_step(float* x, int rows, float* g, const SignStep& p) {
  constexpr int ld = sign_stride<K>;
  const auto at = [](const float* m) { return [m](int k, int j) { return m[k * ld + j]; }; };
  SquareTile<K> e, e2;
  e.transposed_product(rows, x, at(x));
  e.for_each([](float& v, int i, int j) { v -= i == j; });
  e.store(g);
  e2.transposed_product(K, g, at(g));
#pragma unroll
  for (int j = 0; j < SquareTile<K>::J; ++j)
#pragma unroll
    for (int i = 0; i < 4; ++i) e.d[j].v[i] = p.beta * e.d[j].v[i] + p.delta * e2.d[j].v[i];
  e.store(g);
  for (int row = int(threadIdx.x) / warp_size * 16; row < rows; row += sign_warps<K> * 16) {
    TileD d[K / 8];
    strip_product<K>(d, x + row * ld, g);
    __syncwarp();
#pragma unroll
    for (int j = 0; j < K / 8; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float& v = x[(row + tile_row(i)) * ld + 8 * j + tile_col(i)];
        v = p.alpha * v + d[j].v[i];
      }
  }
  __syncthreads();
}
template <int K> __device__ void polar_factor(float* x, int rows, float* g, int lifts) {
  for (int i = 0; i < lifts + sign_steps_after_lifts; ++i) sign_step<K>(x, rows, g, sign_step_of(i, lifts));
}

// Matrices of [large, small], element (i, j) at [i * by_row + j * by_col].
struct SignThreshold {
  const float *a, *tau, *scale;  // a is already scaled: scale is a power of two per matrix, or NaN
  float *d, *x;                  // x: if rows do not fit into shared memory, [batch, rows, sign_stride]
  int large, small, rows;        // rows: large, rounded up to 16
  int64_t by_row, by_col;
};

// One block per matrix.
template <int K> __global__ void __launch_bounds__(sign_warps<K>* warp_size, 1)
    sign_threshold_kernel(SignThreshold p) {
  constexpr int ld = sign_stride<K>;
  const int thread = int(threadIdx.x), threads = int(blockDim.x);
  const int64_t size = int64_t(p.large) * p.small;
  Shared shared;
  float* g = shared.array<float>(K * ld);
  float* b = shared.array<float>(K * ld);
  float* s = shared.array<float>(K * ld);
  float* part = shared.array<float>(32);
  float* x = p.x ? p.x + blockIdx.x * int64_t(p.rows) * ld : shared.array<float>(int64_t(p.rows) * ld);
  const float* a = p.a + blockIdx.x * size;
  float* d = p.d + blockIdx.x * size;
  const float scale = p.scale[blockIdx.x];
  const auto a_at = [&](int i, int j) {
    return i < p.large && j < p.small ? a[i * p.by_row + j * p.by_col] : 0.0f;
  };
  for (int i = thread; i < p.rows * K; i += threads) x[i / K * ld + i % K] = a_at(i / K, i % K);
  __syncthreads();

  // sigma_1^2 is at most the largest row sum of |A^T A|.
  SquareTile<K> square;
  square.transposed_product(p.rows, x, [&](int i, int j) { return x[i * ld + j]; });
  square.store(g);
  float sum = 0;
  for (int j = 0; thread < K && j < K; ++j) sum += fabsf(g[thread * ld + j]);
  const float bound = sqrtf(block_max(sum, part)), tau = p.tau[blockIdx.x] * scale / bound;
  if (!(tau < 1)) {
    for (int64_t i = thread; i < size; i += threads) d[i] = 0 * scale;
    return;
  }

  for (int i = thread; i < p.rows * K; i += threads) x[i / K * ld + i % K] /= bound;
  __syncthreads();
  int lifts = 0;
  for (float least = tau; least < sign_lifted && lifts < sign_most_lifts; least *= sign_lift_factor) ++lifts;
  polar_factor<K>(x, p.rows, g, lifts);

  square.transposed_product(p.rows, x, a_at);
  square.for_each([&](float& v, int i, int j) { v = v / bound - (i == j && i < p.small ? tau : 0); });
  square.store(b);
  square.store(s);
  polar_factor<K>(s, K, g, sign_lifts);

  square.transposed_product(K, s, [&](int i, int j) { return b[i * ld + j]; });
  square.for_each([&](float& v, int i, int j) { v = (v + b[i * ld + j]) * (bound / scale / 2); });
  square.store(g);
  for (int row = thread / warp_size * 16; row < p.rows; row += sign_warps<K> * 16) {
    TileD out[K / 8];
    strip_product<K>(out, x + row * ld, g);
#pragma unroll
    for (int j = 0; j < K / 8; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int r = row + tile_row(i), c = 8 * j + tile_col(i);
        if (r < p.large && c < p.small) d[r * p.by_row + c * p.by_col] = out[j].v[i];
      }
  }
}

// --- the launch

constexpr int64_t sign_columns(int64_t small) { return small <= 32 ? 32 : small <= 64 ? 64 : 128; }

inline size_t sign_shared(int64_t columns, int64_t rows) {
  const int64_t ld = columns + 4;
  return 3 * shared_size<float>(columns * ld) + shared_size<float>(32) + shared_size<float>(rows * ld);
}
// Maximum number of columns: three squares of 128 fit into a multiprocessor from Hopper on.
inline int64_t sign_largest() { return sign_shared(128, 0) <= shared_memory_limit() ? 128 : 64; }
// Scratch numbers per matrix for SignThreshold::x; 0 if it fits into shared memory.
inline int64_t sign_scratch(int64_t small, int64_t rows) {
  const int64_t columns = sign_columns(small);
  return sign_shared(columns, rows) <= shared_memory_limit() ? 0 : rows * (columns + 4);
}

template <int K> void launch_sign_threshold(int64_t batch, const SignThreshold& p) {
  launch<sign_threshold_kernel<K>>(
      {unsigned(batch), sign_warps<K> * warp_size, sign_shared(K, p.x ? 0 : p.rows)}, p);
}
inline void sign_threshold(int64_t batch, const SignThreshold& p) {
  const int64_t columns = sign_columns(p.small);
  (columns == 32   ? launch_sign_threshold<32>
   : columns == 64 ? launch_sign_threshold<64>
                   : launch_sign_threshold<128>)(batch, p);
}

}  // namespace pursuit::cuda
#endif
