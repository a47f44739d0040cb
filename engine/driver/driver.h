#pragma once
#include <string>
#include <vector>

#include "engine/operator/operator.h"

namespace pursuit::driver {

// What one mode found out about one operator.
struct Report {
  std::string name;
  int64_t samples = 0;   // that were tried
  int64_t compared = 0;  // elements
  double worst = 0;      // largest error over its bar
  std::vector<std::string> failures;
  bool ok() const { return failures.empty(); }
};

// Runs every sample in every arrangement and holds results and gradients against a contiguous f64 run on the
// CPU, that one against the operator's reference, and its gradients against central differences of some
// elements. Never passes without having compared something. `layouts`: all, or contiguous inputs only.
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

// Operators of the inventory that are wrong on purpose (canaries.cpp).
bool is_canary(const OperatorInfo& op);

}  // namespace pursuit::driver
