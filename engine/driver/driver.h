#pragma once
#include <string>
#include <vector>

#include "engine/operator/operator.h"

namespace pursuit::driver {

// The result of one mode for one operator.
struct Report {
  std::string name;
  int64_t samples = 0;   // number of samples run
  int64_t compared = 0;  // elements
  double worst = 0;      // largest ratio of error to tolerance
  std::vector<std::string> failures;
  bool ok() const { return failures.empty(); }
};

// Runs every sample in every arrangement and compares results and gradients with a contiguous f64 run on the
// CPU. Compares that run with the operator's reference, and its gradients with central differences of some
// elements. Fails if nothing was compared. `layouts`: all, or contiguous inputs only.
Report check(const OperatorInfo& op, Device device, const std::vector<DType>& dtypes, bool layouts = true);

// Central differences in f64 on the CPU for every sample, of at most `elements` of each input.
Report check_gradients(const OperatorInfo& op, int64_t elements = 400);

// Median times on the operator's largest sample.
struct Timing {
  std::string name;
  int64_t bytes = 0;             // inputs and output
  double forward = 0, both = 0;  // seconds; both: with the backward pass
};
Timing bench(const OperatorInfo& op, Device device, DType dtype);

// The deliberately wrong operators of the inventory (canaries.cpp).
bool is_canary(const OperatorInfo& op);

}  // namespace pursuit::driver
