#pragma once
#include <functional>
#include <vector>

#include "apps/bench/step_times.h"
#include "nn/module.h"

namespace pursuit::bench {

// Runs a training step operator by operator and waits for the device whenever a gradient arrives. The
// parameters' gradients must be zero; `forward` returns the loss, `update` is the optimizer's step.
StepTimes profile(const std::vector<nn::NamedTensor>& parameters, Device device,
                  const std::function<Tensor()>& forward, const std::function<void()>& update);

}  // namespace pursuit::bench
