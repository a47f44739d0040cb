#include "engine/program/describe.h"

#include "cuda/runtime.h"
#include "engine/cpu/amx.h"
#include "engine/cpu/parallel.h"
#include "engine/cpu/rows.h"

namespace pursuit {

std::string describe(Device device) {
  if (device.is_cuda()) return device.name() + " (" + cuda::describe(device.index) + ")";
  const std::string why = cuda::available() ? "" : " (" + cuda::why_not() + ")";
  return "cpu" + why + ", " + std::to_string(num_threads()) + " threads, " + rows<float>().isa +
         (amx_chosen() ? ", amx" : "");
}

}  // namespace pursuit
