#pragma once
#include <string>

#include "engine/core/device.h"

namespace pursuit {

// One line for the head of a log: the device and its description, e.g.
// "cpu (built without CUDA), 2 threads, avx512".
std::string describe(Device device);

}  // namespace pursuit
