#pragma once
#include <map>
#include <string>

#include "apps/classify/config.h"
#include "apps/classify/model.h"
#include "engine/ops.h"

namespace pursuit::classify {

// The model's tensors by name, with values drawn alike for every model; variances are positive.
inline std::map<std::string, Tensor> drawn_state(const Config& config) {
  const Model model(model_config(config));
  std::map<std::string, Tensor> tensors;
  uint64_t stream = 0;
  for (const nn::NamedTensor& t : model.state())
    tensors[t.name] = t.name.ends_with("running_var")  ? full(t.tensor->shape(), 1.5)
                      : is_floating(t.tensor->dtype()) ? normal(t.tensor->shape(), 0.1, 0.4, 7, stream++)
                                                       : t.tensor->detach();
  return tensors;
}

}  // namespace pursuit::classify
