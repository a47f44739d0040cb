#pragma once
#include "engine/ops.h"
#include "engine/sizes/window.h"

namespace pursuit {

// Throws unless x [B, C, H, W] has at least one window along both dimensions.
void require_windows(const char* name, const Tensor& x, Pair kernel, Pair stride, Pair padding,
                     Pair dilation);

// Throws if the padding exceeds half the kernel: a window could lie entirely outside the image.
void require_half_padding(const char* name, Pair kernel, Pair padding);

}  // namespace pursuit
