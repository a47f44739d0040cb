#pragma once
#include "engine/tensor.h"

namespace pursuit {

// dst = src, converting the dtype; same shape and device, any strides. Floats to integers truncate.
void copy_strided(const Tensor& dst, const Tensor& src);

}  // namespace pursuit
