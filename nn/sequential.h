#pragma once
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nn/module.h"

namespace pursuit::nn {

// Layers applied in order, each named by its index, as in PyTorch:
//
//   Sequential net;
//   net.add<Linear>(784, 100).add(relu).add<Linear>(100, 10);  // 0.weight, 0.bias, 2.weight, 2.bias
//
// A layer is a module called with one tensor, constructed here from its arguments, or a function of a tensor,
// which has no parameters but also takes an index.
class Sequential : public Callable<Sequential> {
 public:
  template <class M, class... A> Sequential& add(A&&... arguments) {
    const auto layer = std::make_shared<M>(std::forward<A>(arguments)...);
    add_module(std::to_string(layers_.size()), *layer);
    layers_.push_back([layer](const Tensor& x) { return (*layer)(x); });
    return *this;
  }
  Sequential& add(std::function<Tensor(const Tensor&)> layer) {
    layers_.push_back(std::move(layer));
    return *this;
  }
  size_t size() const { return layers_.size(); }
  Tensor forward(Tensor x) const {
    for (const auto& layer : layers_) x = layer(x);
    return x;
  }

 private:
  std::vector<std::function<Tensor(const Tensor&)>> layers_;
};

}  // namespace pursuit::nn
