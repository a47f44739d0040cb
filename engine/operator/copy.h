#pragma once
#include "engine/core/tensor.h"

namespace pursuit {

// dst = src, converting the dtype; same shape and device, any strides. Floats to integers truncate.
void copy_strided(const Tensor& dst, const Tensor& src);

// Throws Error if writing src's values into dst would write an element twice, or read one that is already
// overwritten: dst has elements that share memory, or overlaps src in another layout.
void require_apart(const char* where, const Tensor& dst, const Tensor& src);

// Copies to.bytes() bytes (at most 64) from the host into the contiguous tensor `to`. On a GPU they travel as
// kernel arguments: the call does not wait, and `from` may be changed at once.
void write_small(const Tensor& to, const void* from);

}  // namespace pursuit
