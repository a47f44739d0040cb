#pragma once
#include <functional>
#include <span>

#include "engine/core/tensor.h"

namespace pursuit {

// An input of a call and the use count of its storage before the call.
struct Argument {
  const Tensor* tensor;
  long handles;
};
// Records an operator with result y on the tape. Storages whose use count has grown were saved.
void record(Tensor& y, const char* name, std::span<const Argument> arguments,
            std::function<Grads(const Tensor&, Tensor)> backward, bool adds = false);

// y.backward(seed) that calls `arrived` with every leaf as soon as its gradient is complete, so that work on
// one gradient (an all-reduce) overlaps with the computation of the others.
void backward(const Tensor& y, const Tensor& seed, const std::function<void(const Node& leaf)>& arrived);

}  // namespace pursuit
