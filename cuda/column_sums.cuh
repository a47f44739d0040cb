#pragma once
#include <algorithm>

#include "cuda/launch.h"
#include "cuda/pack.h"
#include "cuda/workspace.h"

// Column sums in two stages, each in a fixed order: every block sums some rows of 32 packs of columns, and a
// second launch adds the blocks' results.
#ifdef PURSUIT_GPU
namespace pursuit::cuda {

constexpr int column_warps = 8;     // a block is 32 x column_warps threads, a lane holds V columns
constexpr int column_blocks = 528;  // target: 4 for each of an H100's 132 multiprocessors

// Rows are split into `parts` so that there are enough blocks and each warp has several rows.
inline dim3 column_grid(int64_t rows, int64_t cols, int V) {
  const int64_t across = (cols + warp_size * V - 1) / (warp_size * V);
  const int64_t parts = std::min(column_blocks / across, rows / (4 * column_warps));
  return {unsigned(across), unsigned(std::max<int64_t>(1, parts))};
}

constexpr size_t column_shared(int V) { return shared_size<float>(column_warps * warp_size * V); }

// y[j] = sum of s over the block's warps, for the block's columns j < cols; `all` is shared memory of
// column_shared(V) bytes.
template <int V, class S>
__device__ void store_column_sums(const float (&s)[V], float* all, S* y, int64_t cols) {
  constexpr int width = warp_size * V;
  static_assert(width <= warp_size * column_warps);
#pragma unroll
  for (int v = 0; v < V; ++v) all[threadIdx.y * width + v * warp_size + threadIdx.x] = s[v];
  __syncthreads();
  const int c = threadIdx.y * warp_size + threadIdx.x;
  const int64_t j = int64_t(blockIdx.x) * width + c;
  if (c >= width || j >= cols) return;
  float sum = 0;
  for (int w = 0; w < column_warps; ++w) sum += all[w * width + c % V * warp_size + c / V];
  y[j] = downcast<S>(sum);
}

// y [parts, cols]: row p is the sum of part p of the rows of x [rows, cols].
template <int V, class T, class S>
__global__ void column_sums_kernel(const T* x, S* y, int64_t rows, int64_t cols) {
  Shared shared;
  float* all = shared.array<float>(column_warps * warp_size * V);
  const int64_t j = (int64_t(blockIdx.x) * warp_size + threadIdx.x) * V;
  const int64_t begin = rows * blockIdx.y / gridDim.y, end = rows * (blockIdx.y + 1) / gridDim.y;
  float s[V] = {};
  if (j < cols) {
#pragma unroll 8
    for (int64_t i = begin + threadIdx.y; i < end; i += column_warps) {
      const Pack<T, V> p = load_pack<V>(x + i * cols + j);
#pragma unroll
      for (int v = 0; v < V; ++v) s[v] += upcast(p.v[v]);
    }
  }
  store_column_sums(s, all, y + blockIdx.y * cols, cols);
}

template <int V, class T, class S>
void launch_column_sums(const T* x, S* y, dim3 grid, int64_t rows, int64_t cols) {
  launch<column_sums_kernel<V, T, S>>({grid, {warp_size, column_warps}, column_shared(V)}, x, y, rows, cols);
}

// The second stage: y = sum of the rows of part [parts, cols].
template <class T> void add_column_parts(const float* part, T* y, int64_t parts, int64_t cols) {
  launch_column_sums<1>(part, y, dim3(column_grid(parts, cols, 1).x), parts, cols);
}

// y [cols] = sum of the rows of x [rows, cols], contiguous.
template <class T> void column_sums(const T* x, T* y, int64_t rows, int64_t cols) {
  if (cols == 0) return;
  with_pack<T>(cols, {x}, [&]<int V>() {
    const dim3 grid = column_grid(rows, cols, V);
    if (grid.y == 1) return launch_column_sums<V>(x, y, grid, rows, cols);
    const Workspace<float> part(grid.y * cols);
    launch_column_sums<V>(x, part.data(), grid, rows, cols);
    add_column_parts(part.data(), y, grid.y, cols);
  });
}

}  // namespace pursuit::cuda
#endif
