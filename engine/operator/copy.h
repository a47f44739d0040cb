#pragma once
#include "engine/core/tensor.h"

namespace pursuit {

// dst = src, converting the dtype; same shape and device, any strides. Floats to integers truncate.
void copy_strided(const Tensor& dst, const Tensor& src);

// to = the to.bytes() bytes at `from`, 64 at most; `to` is contiguous. On a GPU a kernel carries them as its
// arguments: nothing waits, and `from` may change at once.
void write_small(const Tensor& to, const void* from);

}  // namespace pursuit
