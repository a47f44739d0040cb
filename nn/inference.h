#pragma once
#include <vector>

#include "engine/cpu/kept_factors.h"
#include "engine/cpu/parallel.h"
#include "nn/module.h"

namespace pursuit::nn {

// While one lives, a model on the CPU is used and not trained: its weights are laid out for products once, and
// threads stay awake between products. Results are the same; gradients of inputs, as attacks take them, too.
// Of a model that is where it will stay: after Module::to. It outlives this.
class Inference {
 public:
  explicit Inference(const Module& model) : factors_(weights_of(model)) {}

 private:
  static std::vector<KeptWeight> weights_of(const Module& model) {
    std::vector<KeptWeight> weights;
    for (const NamedTensor& p : model.state())
      if (const Tensor& w = *p.tensor; !w.device().is_cuda() && w.is_contiguous() && w.numel() > 0)
        weights.push_back({w.storage(), w.raw(), w.bytes()});
    return weights;
  }
  KeptFactors factors_;
  KeepAwake awake_;
};

}  // namespace pursuit::nn
