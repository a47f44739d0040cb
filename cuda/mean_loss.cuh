#pragma once
#include "cuda/last_block.cuh"
#include "cuda/row.cuh"
#include "cuda/workspace.h"

// Mean of the rows' losses in a fixed order, in the launch that computes them: every block sums its rows, and
// the last one to be done adds up the blocks' sums.
#ifdef PURSUIT_GPU
namespace pursuit::cuda {

constexpr int64_t loss_blocks = 2048;  // upper limit; more blocks would only give the last one more to add

// The results of a loss kernel.
struct MeanLoss {
  float* part;          // [blocks, 2]: a block's losses and how many of its rows count
  float *mean, *scale;  // losses / rows and 1 / rows; 0 if no row counts

  static size_t shared_bytes() { return shared_size<float>(warp_size) + shared_size<int>(1); }

  // Called by all threads at the kernel's end: losses of this thread, and how many rows it counted.
  __device__ void add_up(float losses, float rows, Shared& shared) const {
    float* warps = shared.array<float>(warp_size);
    int* flag = shared.array<int>(1);
    losses = block_sum(losses, warps);
    rows = block_sum(rows, warps);
    if (threadIdx.x == 0) {
      part[2 * blockIdx.x] = losses;
      part[2 * blockIdx.x + 1] = rows;
    }
    if (!is_last_block(0, gridDim.x, flag)) return;
    losses = rows = 0;
    for (unsigned b = threadIdx.x; b < gridDim.x; b += blockDim.x) {
      losses += part[2 * b];
      rows += part[2 * b + 1];
    }
    losses = block_sum(losses, warps);
    rows = block_sum(rows, warps);
    if (threadIdx.x != 0) return;
    *scale = rows == 0 ? 0.0f : 1 / rows;
    *mean = losses * *scale;
  }
};

// Calls launch(Grid, MeanLoss) to launch a loss kernel with shared memory for add_up. Without blocks mean and
// scale become 0.
template <class F> void mean_of_losses(Grid grid, float* mean, float* scale, const F& launch) {
  if (grid.blocks.x == 0) {
    for (float* number : {mean, scale}) fill_zero(number, current_device(), sizeof(float));
    return;
  }
  const Workspace<float> part(2 * int64_t(grid.blocks.x));
  grid.shared += MeanLoss::shared_bytes();
  launch(grid, MeanLoss{part.data(), mean, scale});
}

}  // namespace pursuit::cuda
#endif
