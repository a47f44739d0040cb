#pragma once
#include "engine/ops.h"
#include "engine/ops/window.h"

namespace pursuit {

// Throws unless there is at least one window along both dimensions of x [B, C, H, W].
void require_windows(const char* name, const Tensor& x, Pair kernel, Pair stride, Pair padding,
                     Pair dilation);

// Throws where pooling's padding is more than half of its kernel: a window could lie beside the picture.
void require_half_padding(const char* name, Pair kernel, Pair padding);

}  // namespace pursuit
