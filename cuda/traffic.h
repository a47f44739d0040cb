#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/base/error.h"

// What kernels move, counted.
namespace pursuit::cuda {

// All launches of a kernel, or of a product or copy of the library. Bytes are those of the GPU's memory, in
// sectors of 32, each counted once a launch however often it is read or written: what a launch takes whose
// caches never lose anything.
struct KernelTraffic {
  std::string kernel;
  int64_t launches = 0;
  int64_t read = 0, written = 0;  // bytes
  int64_t multiply_adds = 0;      // of products, tensor cores' and the library's; no others are counted
};

// What work() gives to the GPU and is done by its end, by kernel in the order of first launches. Throws Error
// where nothing counts: that takes the simulated GPU, built with -DPURSUIT_TRAFFIC=ON.
#ifdef PURSUIT_TRAFFIC
std::vector<KernelTraffic> traffic_of(const std::function<void()>& work);
#else
inline std::vector<KernelTraffic> traffic_of(const std::function<void()>&) {
  fail("cuda",
       "this build does not count what kernels move; configure with -DPURSUIT_CUDA=SIMULATED "
       "-DPURSUIT_TRAFFIC=ON");
}
#endif

}  // namespace pursuit::cuda
