#pragma once
#include "cuda/launch.h"

// Sums over a whole grid in one launch: every block writes its part, and the last one to be done adds up all
// parts, in their order.
#ifdef PURSUIT_GPU
namespace pursuit::cuda {

constexpr int most_block_counts = 528;

// How many blocks are done, of each of the grid's columns; 0 between launches. A device runs them one after
// another, so that all can count in one place.
static __device__ unsigned blocks_done[most_block_counts];

// Whether this block is the last of `blocks` that count at number `which`. It then sees what the others have
// written before. Called by all threads of the block; flag: shared memory.
__device__ inline bool is_last_block(unsigned which, unsigned blocks, int* flag) {
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0) {
    __threadfence();
    const bool last = atomicAdd(&blocks_done[which], 1u) == blocks - 1;
    if (last) blocks_done[which] = 0;
    __threadfence();
    *flag = last;
  }
  __syncthreads();
  return *flag != 0;
}

}  // namespace pursuit::cuda
#endif
