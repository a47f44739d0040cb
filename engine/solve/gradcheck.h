#pragma once
#include <functional>
#include <string>
#include <vector>

#include "engine/core/tensor.h"

namespace pursuit {

struct GradientOptions {
  double eps = 1e-6;                // step of the central differences
  double atol = 1e-5, rtol = 1e-3;  // passes where |numeric - tape| <= atol + rtol |numeric|
  int64_t max_elements = 0;         // of each input, spread over it, first and last included; 0: all
  uint64_t seed = 0;                // of the random cotangent
};

struct GradientReport {
  bool ok = false;
  int64_t compared = 0;  // elements
  double worst = 0;      // largest |numeric - tape| / (atol + rtol |numeric|); infinity for a NaN
  std::string message;   // what failed worst: input, element and both numbers; empty if ok
};

// Holds the tape's gradient of sum(c * f(inputs)), c a random cotangent, against central differences in f64
// on the CPU. Floating inputs are converted to f64 and want a gradient; integer and undefined ones are passed
// on. f must be a function of its inputs alone and return f64. Its value is not checked. Also checked: that a
// second backward adds to the first one's gradient, and that a buffer given by bind_grad is overwritten by
// the first. Fails on a NaN and on nothing compared. Inputs on a kink (|x| at 0) have no derivative: choose
// others. After PyTorch's gradcheck.
GradientReport check_gradient(const std::function<Tensor(const std::vector<Tensor>&)>& f,
                              const std::vector<Tensor>& inputs, const GradientOptions& options = {});

}  // namespace pursuit
