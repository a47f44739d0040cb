#pragma once

namespace pursuit {

// Coefficients of an optimizer's update for step t (from 1) with learning rate lr: keep = 1 - lr
// weight_decay, rate = lr / (1 - beta1^t), unbias = 1 / (1 - beta2^t).
struct StepNumbers {
  float lr, keep, rate, unbias;
};

}  // namespace pursuit
