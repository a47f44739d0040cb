#pragma once
#include "engine/core/dtype.h"

// Included by all GPU kernels: CUDA C++ and the helpers below. Without nvcc, the host compiler takes CUDA's
// part from the simulated GPU.
#ifdef PURSUIT_GPU
#ifdef __CUDACC__
#include <cuda_runtime.h>
#else
#include "cuda/simulated/simt.h"
#endif

namespace pursuit::cuda {

// Bytes that Shared::array<T>(n) takes.
template <class T> constexpr size_t shared_size(int64_t n) { return (size_t(n) * sizeof(T) + 15) / 16 * 16; }

// Splits the block's dynamic shared memory into 16-byte aligned arrays. All threads request the same
// arrays in the same order. Kernels use no other shared memory, so that the simulated GPU can guard each
// array.
class Shared {
 public:
#ifdef __CUDACC__
  __device__ Shared() {
    extern __shared__ __align__(128) unsigned char dynamic_shared_memory[];
    next_ = dynamic_shared_memory;
  }
  template <class T> __device__ T* array(int64_t n) {
    T* a = reinterpret_cast<T*>(next_);
    next_ += shared_size<T>(n);
    return a;
  }

 private:
  unsigned char* next_;
#else
  template <class T> T* array(int64_t n) {
    return static_cast<T*>(simt::shared_array(size_t(n) * sizeof(T), shared_size<T>(n)));
  }
#endif
};

constexpr int warp_size = 32;
constexpr unsigned all_lanes = ~0u;

__device__ inline float warp_sum(float x) {
  for (int o = warp_size / 2; o > 0; o /= 2) x += __shfl_xor_sync(all_lanes, x, o);
  return x;
}
__device__ inline float warp_max(float x) {
  for (int o = warp_size / 2; o > 0; o /= 2) x = fmaxf(x, __shfl_xor_sync(all_lanes, x, o));
  return x;
}

// Sum over all threads of a block of whole warps, returned in each; `part` is shared memory for 32 floats.
__device__ inline float block_sum(float x, float* part) {
  x = warp_sum(x);
  if (threadIdx.x % warp_size == 0) part[threadIdx.x / warp_size] = x;
  __syncthreads();
  x = warp_sum(threadIdx.x % warp_size < blockDim.x / warp_size ? part[threadIdx.x % warp_size] : 0.0f);
  __syncthreads();
  return x;
}
__device__ inline float block_max(float x, float* part) {
  x = warp_max(x);
  if (threadIdx.x % warp_size == 0) part[threadIdx.x / warp_size] = x;
  __syncthreads();
  x = warp_max(part[threadIdx.x % warp_size < blockDim.x / warp_size ? threadIdx.x % warp_size : 0]);
  __syncthreads();
  return x;
}

}  // namespace pursuit::cuda
#endif
