#pragma once
#include "engine/core/tensor.h"

namespace pursuit {

// Throws unless the residual that an operator adds to its result is undefined, or has the result's shape and
// x's dtype (or f32 with a bf16 x).
inline void require_residual(const char* where, const Tensor& residual, const Shape& shape, const Tensor& x) {
  if (!residual.defined()) return;
  if (residual.shape() != shape || !fits_beside(residual.dtype(), x.dtype()) ||
      residual.device() != x.device())
    fail(where, "residual is " + residual.str() + ", need " + name_of(x.dtype()) + shape.str() +
                    " or f32 beside bf16, on " + x.device().name());
}

}  // namespace pursuit
