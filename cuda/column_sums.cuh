#pragma once
#include <algorithm>

#include "cuda/last_block.cuh"
#include "cuda/pack.h"
#include "cuda/workspace.h"

// Column sums in two stages, each in a fixed order: every block sums some rows of 32 packs of columns, and
// the last block of these columns adds the blocks' results.
#ifdef PURSUIT_GPU
namespace pursuit::cuda {

constexpr int column_warps = 8;     // a block is 32 x column_warps threads, a lane holds V columns
constexpr int column_blocks = 528;  // target: 4 for each of an H100's 132 multiprocessors
static_assert(column_blocks <= most_block_counts);

// Rows are split into `parts` so that there are enough blocks and each warp has several rows.
inline dim3 column_grid(int64_t rows, int64_t cols, int V) {
  const int64_t across = (cols + warp_size * V - 1) / (warp_size * V);
  const int64_t parts = std::min(column_blocks / across, rows / (4 * column_warps));
  return {unsigned(across), unsigned(std::max<int64_t>(1, parts))};
}

constexpr size_t column_shared(int V) {
  return shared_size<float>(column_warps * warp_size * V) + shared_size<int>(1);
}

// s += the numbers in the thread's columns from j on of x's rows begin + its warp, and so on up to end.
template <int V, class T>
__device__ void add_rows(float (&s)[V], const T* x, int64_t j, int64_t begin, int64_t end, int64_t cols) {
#pragma unroll 8
  for (int64_t i = begin + threadIdx.y; i < end; i += column_warps) {
    const Pack<T, V> p = load_pack<V>(x + i * cols + j);
#pragma unroll
    for (int v = 0; v < V; ++v) s[v] += upcast(p.v[v]);
  }
}

// y[j] = sum of s over the block's warps, for the block's columns j < cols.
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

// y[j] = sum of s over the warps of all blocks with these columns. part: memory for [blocks, cols], null if
// there is one block. Called by all threads.
template <int V, class S>
__device__ void add_up_columns(float (&s)[V], Shared& shared, int64_t j, float* part, S* y, int64_t cols) {
  float* all = shared.array<float>(column_warps * warp_size * V);
  int* flag = shared.array<int>(1);
  if (gridDim.y == 1) return store_column_sums(s, all, y, cols);
  store_column_sums(s, all, part + blockIdx.y * cols, cols);
  if (!is_last_block(blockIdx.x, gridDim.y, flag)) return;
#pragma unroll
  for (int v = 0; v < V; ++v) s[v] = 0;
  if (j < cols) add_rows(s, static_cast<const float*>(part), j, 0, gridDim.y, cols);
  store_column_sums(s, all, y, cols);
}

template <int V, class T, class S>
__global__ void column_sums_kernel(const T* x, float* part, S* y, int64_t rows, int64_t cols) {
  Shared shared;
  const int64_t j = (int64_t(blockIdx.x) * warp_size + threadIdx.x) * V;
  float s[V] = {};
  if (j < cols) add_rows(s, x, j, rows * blockIdx.y / gridDim.y, rows * (blockIdx.y + 1) / gridDim.y, cols);
  add_up_columns(s, shared, j, part, y, cols);
}

// The parts of a grid of column_grid.
inline Workspace<float> column_parts(dim3 grid, int64_t cols) {
  return grid.y == 1 ? Workspace<float>() : Workspace<float>(grid.y * cols);
}

// y [cols] = sum of the rows of x [rows, cols], contiguous.
template <class T, class S> void column_sums(const T* x, S* y, int64_t rows, int64_t cols) {
  if (cols == 0) return;
  with_pack<T>(cols, {x}, [&]<int V>() {
    const dim3 grid = column_grid(rows, cols, V);
    const auto part = column_parts(grid, cols);
    launch<column_sums_kernel<V, T, S>>({grid, {warp_size, column_warps}, column_shared(V)}, x, part.data(),
                                        y, rows, cols);
  });
}

}  // namespace pursuit::cuda
#endif
