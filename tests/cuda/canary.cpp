#include <cstdio>

#include "cuda/launch.h"
#include "engine/core/tensor.h"
#include "engine/program/program.h"

// A kernel that writes 1 MiB beyond its tensor of 256 bytes. tools/gpu-check verifies that compute-sanitizer
// detects it before it trusts that the sanitizer finds nothing elsewhere.
using namespace pursuit;

namespace pursuit {

__global__ void canary_kernel(float* x, int64_t beyond) { x[beyond + threadIdx.x] = 1; }

}  // namespace pursuit

namespace {

int run(const std::vector<std::string>&) {
  const Tensor x = empty({64}, DType::f32, device_from_name("cuda"));
  cuda::launch<canary_kernel>({1, 32}, x.data<float>(), int64_t{1} << 18);
  cuda::synchronize(x.device().index);
  std::printf("a kernel has written beyond its tensor\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run_main(argc, argv, run); }
