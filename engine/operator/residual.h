#pragma once
#include "engine/core/tensor.h"

namespace pursuit {

// Of an operator on x that adds a residual: undefined, or of the result's shape, and of x's dtype or f32 beside
// bf16.
inline void require_residual(const char* where, const Tensor& residual, const Shape& shape, const Tensor& x) {
  if (!residual.defined()) return;
  if (residual.shape() != shape || !fits_beside(residual.dtype(), x.dtype()) ||
      residual.device() != x.device())
    fail(where, "residual is " + residual.str() + ", need " + name_of(x.dtype()) + shape.str() +
                    " or f32 beside bf16, on " + x.device().name());
}

}  // namespace pursuit
