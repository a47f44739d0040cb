#pragma once
#include "engine/core/tensor.h"

namespace pursuit {

// Throws Error unless the counter of random numbers (optional, see draws_of) is i64 [2], contiguous and beside
// x. Kernels read it where it lies, so that a captured graph sees its new values.
inline void require_counter(const char* where, const Tensor& counter, const Tensor& x) {
  if (counter.defined() && (counter.shape() != Shape{2} || counter.dtype() != DType::i64 ||
                            !counter.is_contiguous() || counter.device() != x.device()))
    fail(where, "got the counter " + counter.str() + (counter.is_contiguous() ? "" : " with strides") +
                    ", need a contiguous i64 [2] beside " + x.str());
}

}  // namespace pursuit
