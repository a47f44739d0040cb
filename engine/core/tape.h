#pragma once
#include <functional>

#include "engine/core/tensor.h"

namespace pursuit {

// y.backward(seed) that calls `arrived` with every leaf as soon as its gradient is complete, so that work on
// one gradient (an all-reduce) overlaps with the computation of the others.
void backward(const Tensor& y, const Tensor& seed, const std::function<void(const Node& leaf)>& arrived);

}  // namespace pursuit
