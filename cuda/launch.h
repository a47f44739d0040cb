#pragma once
#include <algorithm>
#include <string>
#include <type_traits>

#include "cuda/device.h"
#include "cuda/runtime.h"
#include "engine/base/error.h"
#ifdef __CUDACC__
#include "cuda/check.h"
#endif

// Launches a kernel:
//   cuda::launch<softmax_kernel<T>>({blocks, threads, bytes of shared memory}, x, y, n);
// on this thread's current stream.
#ifdef PURSUIT_GPU
namespace pursuit::cuda {

struct Grid {
  dim3 blocks, threads;
  size_t shared = 0;
};

// The maximum shared memory of a block.
inline size_t shared_memory_limit() {
#ifdef __CUDACC__
  int device = 0, bytes = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  CUDA_CHECK(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  return size_t(bytes);
#else
  return simt::most_shared();
#endif
}

// The multiprocessors of the current device.
inline int multiprocessors() {
#ifdef __CUDACC__
  int device = 0, count = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  CUDA_CHECK(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
  return count;
#else
  return simt::multiprocessors;
#endif
}

// Blocks of `threads` that cover n items, one per thread; capped at `most`, where threads loop (grid stride).
inline unsigned blocks_for(int64_t n, int64_t threads, int64_t most = 65535) {
  const int64_t blocks = (n + threads - 1) / threads;
  return unsigned(blocks < most ? blocks : most);
}

// The grid of a kernel that takes rows along y and columns along x, 128 at a time.
inline Grid by_rows(int64_t rows, int64_t cols) {
  return {dim3(blocks_for(cols, 128), blocks_for(rows, 1)), dim3(128)};
}

// Extracts the kernel from a __PRETTY_FUNCTION__: "... [with auto kernel = NAME; P = ...]" or without P.
inline std::string kernel_name(const std::string& pretty) {
  const size_t begin = pretty.find("kernel = "), end = std::min(pretty.find("; P", begin), pretty.rfind(']'));
  return begin == std::string::npos ? pretty : pretty.substr(begin + 9, end - begin - 9);
}

[[noreturn]] inline void fail_launch(const std::string& kernel, const Grid& grid, const std::string& why) {
  const auto text = [](dim3 d) {
    return std::to_string(d.x) + " x " + std::to_string(d.y) + " x " + std::to_string(d.z);
  };
  fail("cuda", kernel + " with " + text(grid.blocks) + " blocks of " + text(grid.threads) + " threads and " +
                   std::to_string(grid.shared) + " bytes of shared memory: " + why);
}

// Lets a kernel have this much of it, which more than 48 KiB needs. A captured launch has the last limit set.
#ifdef __CUDACC__
inline cudaError_t allow_shared(const void* kernel, size_t bytes) {
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes));
}
#else
using simt::allow_shared;
#endif

// Lets a kernel have the maximum, once: a smaller limit set for a later launch would also apply to one
// captured before.
template <auto kernel> void allow_shared_of(const Grid& grid) {
  thread_local int allowed_on = -1;
  if (grid.shared <= 48 * 1024 || allowed_on == current_device()) return;
#ifdef __CUDACC__
  const cudaError_t e = allow_shared(reinterpret_cast<const void*>(kernel), shared_memory_limit());
  if (e != cudaSuccess) fail_launch(kernel_name(__PRETTY_FUNCTION__), grid, text_of(e) + device_state());
#else
  allow_shared(reinterpret_cast<const void*>(kernel), shared_memory_limit());
#endif
  allowed_on = current_device();
}

// The blocks of such a launch that one multiprocessor runs at once.
template <auto kernel> int resident_blocks(const Grid& grid) {
  allow_shared_of<kernel>(grid);
#ifdef __CUDACC__
  int blocks = 0;
  CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, reinterpret_cast<const void*>(kernel),
                                                           int(grid.threads.x), grid.shared));
  return blocks;
#else
  return simt::resident_blocks;
#endif
}

template <auto kernel, class... P>
void launch_as(void (*)(P...), const Grid& grid, std::type_identity_t<P>... arguments) {
  const auto* function = reinterpret_cast<const void*>(kernel);
  allow_shared_of<kernel>(grid);
#ifdef __CUDACC__
  void* pointers[] = {&arguments...};
  const cudaError_t e = cudaLaunchKernel(function, grid.blocks, grid.threads, pointers, grid.shared,
                                         static_cast<cudaStream_t>(current_stream()));
  if (e != cudaSuccess) fail_launch(kernel_name(__PRETTY_FUNCTION__), grid, text_of(e) + device_state());
#else
  simt::run(function, kernel_name(__PRETTY_FUNCTION__), grid.blocks, grid.threads, grid.shared,
            [=] { kernel(arguments...); });
#endif
}

template <auto kernel, class... A> void launch(const Grid& grid, const A&... arguments) {
  launch_as<kernel>(kernel, grid, arguments...);
}

}  // namespace pursuit::cuda
#endif
