#pragma once
#include "apps/bench/workload.h"

namespace pursuit::bench {

// Prints the memory traffic of every kernel of a step (cuda/traffic.h) as a table or a JSON object.
void print_traffic(const Workload& workload, int64_t batch, DType dtype, bool json);

}  // namespace pursuit::bench
