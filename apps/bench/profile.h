#pragma once
#include <functional>
#include <vector>

#include "apps/bench/step_times.h"
#include "nn/module.h"

namespace pursuit::bench {

// Runs a training step operator by operator and waits for the device wherever a gradient arrives. The
// parameters' gradients are zero, `forward` gives the loss, `update` is the optimizer's.
StepTimes profile(const std::vector<nn::NamedTensor>& parameters, Device device,
                  const std::function<Tensor()>& forward, const std::function<void()>& update);

}  // namespace pursuit::bench
