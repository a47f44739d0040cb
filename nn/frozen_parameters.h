#pragma once
#include <utility>
#include <vector>

#include "nn/module.h"

namespace pursuit::nn {

// While one lives, the parameters of a module have no gradient, so that backward computes only those of its input.
class FrozenParameters {
 public:
  explicit FrozenParameters(const Module& module);
  ~FrozenParameters();
  FrozenParameters(const FrozenParameters&) = delete;
  FrozenParameters& operator=(const FrozenParameters&) = delete;

 private:
  std::vector<std::pair<Tensor*, Tensor>> trained_;  // a parameter, and what it is again afterwards
};

}  // namespace pursuit::nn
