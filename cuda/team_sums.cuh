#pragma once
#include "cuda/last_block.cuh"
#include "cuda/row.cuh"
#include "cuda/workspace.h"

// Sums over all rows that a kernel of row.cuh makes beside its result, as the gradients of a norm's
// parameters.
#ifdef PURSUIT_GPU
namespace pursuit::cuda {

// A block a multiprocessor of an H100, of so many warps: few blocks have few parts to add up.
constexpr int64_t summing_blocks = 132;
constexpr int summing_warps = 16;

// out [count, cols] = what all teams of the launch have found, each in its own part of sums [teams of the
// block, count, cols], at team.place of a column. part: memory for [blocks, count, cols]; flag: shared
// memory. Called by all threads.
template <class Team> __device__ void add_up_teams(const Team& team, float* sums, int64_t count, int64_t cols,
                                                   float* part, float* out, int* flag) {
  constexpr int teams = Team::teams_of_block, lanes = Team::threads / teams;
  const int64_t width = count * cols;
  const auto add_up_block = [&](float* to) {
    __syncthreads();
    for (int64_t k = 0; k < width; k += cols)
      for (int64_t j = threadIdx.x; j < cols; j += Team::threads) {
        float sum = 0;
        for (int t = 0; t < teams; ++t) sum += sums[t * width + k + team.place(j)];
        to[k + j] = sum;
      }
  };
  if (gridDim.x == 1) return add_up_block(out);
  add_up_block(part + blockIdx.x * width);
  if (!is_last_block(0, gridDim.x, flag)) return;
  const int number = int(threadIdx.x) / lanes;
  for (int64_t k = 0; k < width; k += cols)
    for (int64_t j = threadIdx.x % lanes; j < cols; j += lanes) {
      float sum = 0;
#pragma unroll 8
      for (int b = number; b < int(gridDim.x); b += teams) sum += part[b * width + k + j];
      sums[number * width + k + team.place(j)] = sum;
    }
  add_up_block(out);
}

// The grid of such a kernel for n rows and the memory of its parts.
template <class Team> Grid summing_grid(const char* name, int64_t n, int64_t count, int64_t cols) {
  Grid grid = Team::grid(std::max<int64_t>(1, n), summing_blocks);
  grid.shared += shared_size<float>(Team::teams_of_block * count * cols) + shared_size<int>(1);
  if (grid.shared > shared_memory_limit())
    fail(name, "got rows of " + std::to_string(cols) + ", whose gradient takes " +
                   std::to_string(grid.shared) + " bytes of a block's shared memory; this GPU has " +
                   std::to_string(shared_memory_limit()));
  return grid;
}

}  // namespace pursuit::cuda
#endif
