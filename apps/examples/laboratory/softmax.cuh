#pragma once
#include <cfloat>

#include "apps/examples/laboratory/gpu_meter.h"

// y = softmax(x) over the rows of x [n, cols], f32, in four versions: exp(x - most) / sum of exp(x - most),
// with `most` the row's maximum, so that no exponential overflows. README.md explains each version. A row
// must have a finite number.
#ifdef PURSUIT_GPU
namespace pursuit::laboratory {

// --- Version 1: one thread per row and one kernel per step, like a chain of unfused operators.

template <class Meter>
__global__ void softmax_1_most_kernel(Meter meter, const float* x_, float* most_, int64_t n, int64_t cols) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const auto x = meter.memory(x_ + i * cols);
  const auto most = meter.memory(most_);
  float greatest = x[0];
  for (int64_t j = 1; j < cols; ++j) greatest = fmaxf(greatest, x[j]);
  most[i] = greatest;
}

template <class Meter> __global__ void softmax_1_exponentials_kernel(Meter meter, const float* x_,
                                                                     const float* most_, float* y_,
                                                                     float* sums_, int64_t n, int64_t cols) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const auto x = meter.memory(x_ + i * cols), most = meter.memory(most_);
  const auto y = meter.memory(y_ + i * cols), sums = meter.memory(sums_);
  const float greatest = most[i];
  float sum = 0;
  for (int64_t j = 0; j < cols; ++j) {
    const float e = meter.exp(x[j] - greatest);
    y[j] = e;
    sum += e;
  }
  sums[i] = sum;
}

template <class Meter>
__global__ void softmax_1_divide_kernel(Meter meter, float* y_, const float* sums_, int64_t n, int64_t cols) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const auto y = meter.memory(y_ + i * cols);
  const float inverse = 1 / meter.memory(sums_)[i];
  for (int64_t j = 0; j < cols; ++j) y[j] = y[j] * inverse;
}

// most, sums: scratch of n numbers each.
template <class Meter>
void softmax_1(Meter meter, const float* x, float* y, float* most, float* sums, int64_t n, int64_t cols) {
  const cuda::Grid grid{unsigned((n + 127) / 128), 128};
  start<softmax_1_most_kernel<Meter>>(grid, meter, x, most, n, cols);
  start<softmax_1_exponentials_kernel<Meter>>(grid, meter, x, most, y, sums, n, cols);
  start<softmax_1_divide_kernel<Meter>>(grid, meter, y, sums, n, cols);
}

// --- Version 2: one kernel, one block per row. Adjacent threads have adjacent columns. Each thread has a
// partial maximum and sum, which are reduced by a tree in shared memory.

constexpr int softmax_2_threads = 256;

// Reduces `mine` of all threads with f; every thread gets the result.
template <class Part, class F> __device__ float tree(const Part& part, float mine, const F& f) {
  const unsigned t = threadIdx.x;
  part[t] = mine;
  __syncthreads();
  for (unsigned half = softmax_2_threads / 2; half > 0; half /= 2) {
    if (t < half) part[t] = f(part[t], part[t + half]);
    __syncthreads();
  }
  const float all = part[0];
  __syncthreads();  // all must have read it before the next reduction
  return all;
}

template <class Meter>
__global__ void softmax_2_kernel(Meter meter, const float* x_, float* y_, int64_t cols) {
  cuda::Shared shared;
  const auto part = meter.shared(shared.array<float>(softmax_2_threads));
  const auto x = meter.memory(x_ + int64_t(blockIdx.x) * cols);
  const auto y = meter.memory(y_ + int64_t(blockIdx.x) * cols);
  float most = -FLT_MAX;
  for (int64_t j = threadIdx.x; j < cols; j += softmax_2_threads) most = fmaxf(most, x[j]);
  most = tree(part, most, [](float a, float b) { return fmaxf(a, b); });
  float sum = 0;
  for (int64_t j = threadIdx.x; j < cols; j += softmax_2_threads) sum += meter.exp(x[j] - most);
  sum = tree(part, sum, [](float a, float b) { return a + b; });
  for (int64_t j = threadIdx.x; j < cols; j += softmax_2_threads) y[j] = meter.exp(x[j] - most) / sum;
}

template <class Meter> void softmax_2(Meter meter, const float* x, float* y, int64_t n, int64_t cols) {
  start<softmax_2_kernel<Meter>>(
      {unsigned(n), softmax_2_threads, cuda::shared_size<float>(softmax_2_threads)}, meter, x, y, cols);
}

// --- Version 3: one warp per row, without shared memory or barriers; maximum and sum in one pass
// (Milakov and Gimelshein 2018, "Online normalizer calculation for softmax", algorithm 3).

constexpr int warps_of_block = 4;

// The sum of exp(x - most) over some numbers x, where `most` is their maximum.
struct RunningSum {
  float most, sum;
};
template <class Meter> __device__ RunningSum joined(Meter& meter, RunningSum a, RunningSum b) {
  const float most = fmaxf(a.most, b.most);
  return {most, a.sum * meter.exp(a.most - most) + b.sum * meter.exp(b.most - most)};
}

template <class Meter>
__global__ void softmax_3_kernel(Meter meter, const float* x_, float* y_, int64_t n, int64_t cols) {
  const int64_t i = int64_t(blockIdx.x) * warps_of_block + threadIdx.x / cuda::warp_size;
  if (i >= n) return;
  const auto x = meter.memory(x_ + i * cols);
  const auto y = meter.memory(y_ + i * cols);
  const int lane = threadIdx.x % cuda::warp_size;
  RunningSum r{-FLT_MAX, 0};  // not -inf, or a lane without columns would have exp(-inf + inf)
  for (int64_t j = lane; j < cols; j += cuda::warp_size) r = joined(meter, r, {x[j], 1});
  for (int o = cuda::warp_size / 2; o > 0; o /= 2)
    r = joined(meter, r,
               {__shfl_xor_sync(cuda::all_lanes, r.most, o), __shfl_xor_sync(cuda::all_lanes, r.sum, o)});
  for (int64_t j = lane; j < cols; j += cuda::warp_size) y[j] = meter.exp(x[j] - r.most) / r.sum;
}

template <class Meter> void softmax_3(Meter meter, const float* x, float* y, int64_t n, int64_t cols) {
  start<softmax_3_kernel<Meter>>(
      {unsigned((n + warps_of_block - 1) / warps_of_block), warps_of_block * cuda::warp_size}, meter, x, y, n,
      cols);
}

// --- Version 4: one warp per row, with the row in registers, 32 numbers per lane. The row is read once, 16
// bytes at a time if rows are aligned to that, and each exponential is computed once. Longer rows use version
// 3.

constexpr int softmax_4_kept = 32;  // per lane

template <int V, class Meter>
__global__ void softmax_4_kernel(Meter meter, const float* x_, float* y_, int64_t n, int cols) {
  const int64_t i = int64_t(blockIdx.x) * warps_of_block + threadIdx.x / cuda::warp_size;
  if (i >= n) return;
  const auto x = meter.memory(x_ + i * cols);
  const auto y = meter.memory(y_ + i * cols);
  constexpr int packs = softmax_4_kept / V;
  cuda::Pack<float, V> row[packs];
  const auto column = [](int p) { return (p * cuda::warp_size + int(threadIdx.x) % cuda::warp_size) * V; };
  float most = -FLT_MAX, sum = 0;
#pragma unroll
  for (int p = 0; p < packs; ++p)  // issue all loads at once
    if (column(p) < cols) row[p] = load_pack<V>(x + column(p));
#pragma unroll
  for (int p = 0; p < packs; ++p)
    if (column(p) < cols)
      for (float v : row[p].v) most = fmaxf(most, v);
  most = cuda::warp_max(most);
#pragma unroll
  for (int p = 0; p < packs; ++p)
    if (column(p) < cols)
      for (float& v : row[p].v) sum += v = meter.exp(v - most);
  const float inverse = 1 / cuda::warp_sum(sum);
#pragma unroll
  for (int p = 0; p < packs; ++p)
    if (column(p) < cols) {
      for (float& v : row[p].v) v *= inverse;
      store_pack(y + column(p), row[p]);
    }
}

template <class Meter> void softmax_4(Meter meter, const float* x, float* y, int64_t n, int64_t cols) {
  if (cols > softmax_4_kept * cuda::warp_size) return softmax_3(meter, x, y, n, cols);
  cuda::with_pack<float>(cols, {x}, [&]<int V>() {
    start<softmax_4_kernel<V, Meter>>(
        {unsigned((n + warps_of_block - 1) / warps_of_block), warps_of_block * cuda::warp_size}, meter, x, y,
        n, int(cols));
  });
}

}  // namespace pursuit::laboratory
#endif
