#pragma once
#include <functional>

#include "engine/core/tensor.h"

namespace pursuit {

// y.backward(seed), and calls `arrived` with every leaf as soon as this pass has its whole gradient: what is
// done with one gradient then goes on beside the computation of the others.
void backward(const Tensor& y, const Tensor& seed, const std::function<void(const Node& leaf)>& arrived);

}  // namespace pursuit
