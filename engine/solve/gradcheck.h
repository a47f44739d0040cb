#pragma once
#include <functional>
#include <string>
#include <vector>

#include "engine/core/tensor.h"

namespace pursuit {

struct GradientOptions {
  double eps = 1e-6;                // step of central differences
  double atol = 1e-5, rtol = 1e-3;  // passes where |numeric - tape| <= atol + rtol |numeric|
  int64_t max_elements = 0;         // per input, evenly spread, including first and last; 0: all
  uint64_t seed = 0;                // of the random cotangent
};

struct GradientReport {
  bool ok = false;
  int64_t compared = 0;  // elements
  double worst = 0;      // largest |numeric - tape| / (atol + rtol |numeric|); infinity for NaN
  std::string message;   // the worst failure: input, element and both numbers; empty if ok
};

// Compares the tape's gradient of sum(c * f(inputs)), c a random cotangent, with central differences in f64
// on the CPU, like PyTorch's gradcheck. Floating-point inputs are converted to f64 and need a gradient;
// integer and undefined inputs are passed unchanged. f must be deterministic and return f64; its value is not
// checked. Also checks that a second backward accumulates, and that the first overwrites a buffer set by
// bind_grad. Fails on NaN and if nothing was compared. At a kink (|x| at 0) there is no derivative: choose
// other inputs.
GradientReport check_gradient(const std::function<Tensor(const std::vector<Tensor>&)>& f,
                              const std::vector<Tensor>& inputs, const GradientOptions& options = {});

}  // namespace pursuit
