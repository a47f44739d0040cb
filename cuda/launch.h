#pragma once
#include <type_traits>

#include "cuda/device.h"
#include "cuda/runtime.h"
#ifdef __CUDACC__
#include "cuda/check.h"
#endif

// How operators start kernels:
//   cuda::launch<softmax_kernel<T>>({blocks, threads, bytes of shared memory}, x, y, n);
// on this thread's current stream.
#ifdef PURSUIT_GPU
namespace pursuit::cuda {

struct Grid {
  dim3 blocks, threads;
  size_t shared = 0;
};

// Blocks of `threads` that cover n items, one each, or fewer that walk over them in strides of the grid.
inline unsigned blocks_for(int64_t n, int64_t threads, int64_t most = 65535) {
  const int64_t blocks = (n + threads - 1) / threads;
  return unsigned(blocks < most ? blocks : most);
}

template <auto kernel, class... P>
void launch_as(void (*)(P...), const Grid& grid, std::type_identity_t<P>... arguments) {
#ifdef __CUDACC__
  if (grid.shared > 48 * 1024)
    CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(grid.shared)));
  void* pointers[] = {&arguments...};
  CUDA_CHECK(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid.blocks, grid.threads, pointers,
                              grid.shared, static_cast<cudaStream_t>(current_stream())));
#else
  simt::run(__PRETTY_FUNCTION__, grid.blocks, grid.threads, grid.shared, [&] { kernel(arguments...); });
#endif
}

template <auto kernel, class... A>
void launch(const Grid& grid, const A&... arguments) {
  launch_as<kernel>(kernel, grid, arguments...);
}

}  // namespace pursuit::cuda
#endif
