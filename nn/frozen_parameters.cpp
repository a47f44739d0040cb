#include "nn/frozen_parameters.h"

namespace pursuit::nn {

FrozenParameters::FrozenParameters(const Module& module) {
  for (const NamedTensor& p : module.parameters()) {
    trained_.emplace_back(p.tensor, *p.tensor);
    *p.tensor = p.tensor->detach();
  }
}
FrozenParameters::~FrozenParameters() {
  for (auto& [parameter, trained] : trained_) *parameter = std::move(trained);
}

}  // namespace pursuit::nn
