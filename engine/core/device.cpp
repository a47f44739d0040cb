#include "engine/core/device.h"

#include "cuda/runtime.h"
#include "engine/base/error.h"

namespace pursuit {

namespace {
int gpu = 0;
}  // namespace

Device device_from_name(const std::string& name) {
  if (name == "cpu") return cpu;
#ifdef PURSUIT_SIMULATED
  if (name == "auto") return cpu;  // "auto" never picks the simulated GPU of the tests
#endif
  if (name == "auto") return cuda::available() ? cuda_device(gpu) : cpu;
  const bool indexed = name.size() == 6 && name.rfind("cuda:", 0) == 0 && name[5] >= '0' && name[5] <= '9';
  if (name != "cuda" && !indexed)
    fail("device", "unknown device '" + name + "'; known are auto, cpu, cuda, cuda:0, cuda:1 ...");
  if (!cuda::available())
    fail("device", "'" + name + "' cannot be used: " + cuda::why_not() + "; use --device cpu");
  const int index = indexed ? name[5] - '0' : gpu;
  if (index >= cuda::device_count())
    fail("device",
         "'" + name + "' is not there: this machine has " + std::to_string(cuda::device_count()) + " GPU(s)");
  return cuda_device(index);
}

void use_gpu(int index) {
  const int there = cuda::device_count();
  if (index >= there)
    fail("device", "GPU " + std::to_string(index) + " is not there: this machine has " +
                       std::to_string(there) + " GPU(s)");
  gpu = index;
}

void synchronize(Device device) {
  if (device.is_cuda()) cuda::synchronize(device.index);
}

}  // namespace pursuit
