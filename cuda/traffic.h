#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/base/error.h"

// Counted memory traffic of kernels.
namespace pursuit::cuda {

// All launches of a kernel, or of a product or copy by the library. Bytes are GPU memory in sectors of 32,
// each counted once per launch however often it is read or written: the traffic of a launch with perfect
// caches.
struct KernelTraffic {
  std::string kernel;
  int64_t launches = 0;
  int64_t read = 0, written = 0;  // bytes
  int64_t multiply_adds = 0;      // of products only, on tensor cores and by the library
};

// The traffic of what work() launches and completes, by kernel in the order of first launches.
// Throws Error if the build cannot count: it takes the simulated GPU, built with -DPURSUIT_TRAFFIC=ON.
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
