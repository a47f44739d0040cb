#pragma once
#include "apps/examples/laboratory/matmul.cuh"
#include "apps/examples/laboratory/softmax.cuh"

// The solutions of exercises 1 and 2 of README.md.
#ifdef PURSUIT_GPU
namespace pursuit::laboratory {

// --- Exercise 1: one block per row, with the row in shared memory. It is read once from global memory, as in
// version 4, but may be as long as fits in shared memory.

template <class Meter>
__global__ void softmax_5_kernel(Meter meter, const float* x_, float* y_, int64_t cols) {
  cuda::Shared shared;
  const auto part = meter.shared(shared.array<float>(softmax_2_threads));
  const auto row = meter.shared(shared.array<float>(cols));
  const auto x = meter.memory(x_ + int64_t(blockIdx.x) * cols);
  const auto y = meter.memory(y_ + int64_t(blockIdx.x) * cols);
  // A thread accesses only its own columns, so no barrier is needed.
  float most = -FLT_MAX;
  for (int64_t j = threadIdx.x; j < cols; j += softmax_2_threads) {
    const float v = x[j];
    row[j] = v;
    most = fmaxf(most, v);
  }
  most = tree(part, most, [](float a, float b) { return fmaxf(a, b); });
  float sum = 0;
  for (int64_t j = threadIdx.x; j < cols; j += softmax_2_threads) {
    const float e = meter.exp(row[j] - most);
    row[j] = e;
    sum += e;
  }
  sum = tree(part, sum, [](float a, float b) { return a + b; });
  for (int64_t j = threadIdx.x; j < cols; j += softmax_2_threads) y[j] = row[j] / sum;
}

template <class Meter> void softmax_5(Meter meter, const float* x, float* y, int64_t n, int64_t cols) {
  const size_t bytes = cuda::shared_size<float>(softmax_2_threads) + cuda::shared_size<float>(cols);
  if (bytes > cuda::shared_memory_limit()) return softmax_3(meter, x, y, n, cols);
  start<softmax_5_kernel<Meter>>({unsigned(n), softmax_2_threads, bytes}, meter, x, y, cols);
}

// --- Exercise 2: few elements of C, many terms each (split-k). Block z sums the terms from z * depth on, and
// a second launch adds the partial sums in a fixed order.

constexpr int64_t matmul_5_depth = 512;

// found: [parts of the inner dimension, m, n]
template <class Meter>
__global__ void matmul_5_kernel(Meter meter, const float* a_, const float* b_, float* found_, Sizes s) {
  constexpr int tile = matmul_2_tile;
  cuda::Shared shared;
  const auto a_tile = meter.shared(shared.array<float>(tile * tile));
  const auto b_tile = meter.shared(shared.array<float>(tile * tile));
  const auto a = meter.memory(a_), b = meter.memory(b_);
  const auto found = meter.memory(found_ + int64_t(blockIdx.z) * s.m * s.n);
  const int x = int(threadIdx.x), y = int(threadIdx.y);
  const int64_t i = int64_t(blockIdx.y) * tile + y, j = int64_t(blockIdx.x) * tile + x;
  const int64_t first = int64_t(blockIdx.z) * matmul_5_depth;
  const int64_t end = s.k < first + matmul_5_depth ? s.k : first + matmul_5_depth;
  float sum = 0;
  for (int64_t begin = first; begin < end; begin += tile) {
    a_tile[y * tile + x] = i < s.m && begin + x < end ? float(a[i * s.k + begin + x]) : 0.0f;
    b_tile[y * tile + x] = begin + y < end && j < s.n ? float(b[(begin + y) * s.n + j]) : 0.0f;
    __syncthreads();
    for (int l = 0; l < tile; ++l) sum += a_tile[y * tile + l] * b_tile[l * tile + x];
    meter.multiply_adds(tile);
    __syncthreads();
  }
  if (i < s.m && j < s.n) found[i * s.n + j] = sum;
}

template <class Meter> __global__ void matmul_5_sum_kernel(Meter meter, const float* found_, float* c_,
                                                           int64_t parts, int64_t size) {
  const int64_t e = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (e >= size) return;
  const auto found = meter.memory(found_);
  float sum = 0;
  for (int64_t part = 0; part < parts; ++part) sum += found[part * size + e];
  meter.memory(c_)[e] = sum;
}

inline unsigned matmul_5_parts(Sizes s) { return s.k > 0 ? parts_of(s.k, matmul_5_depth) : 1; }

// found: scratch of matmul_5_parts(s) * m * n numbers.
template <class Meter>
void matmul_5(Meter meter, const float* a, const float* b, float* c, float* found, Sizes s) {
  constexpr int tile = matmul_2_tile;
  const unsigned parts = matmul_5_parts(s);
  start<matmul_5_kernel<Meter>>({{parts_of(s.n, tile), parts_of(s.m, tile), parts},
                                 {tile, tile},
                                 2 * cuda::shared_size<float>(tile * tile)},
                                meter, a, b, found, s);
  start<matmul_5_sum_kernel<Meter>>({parts_of(s.m * s.n, 256), 256}, meter, found, c, int64_t(parts),
                                    s.m * s.n);
}

}  // namespace pursuit::laboratory
#endif
