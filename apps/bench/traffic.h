#pragma once
#include "apps/bench/workload.h"

namespace pursuit::bench {

// What every kernel of a step moves, as cuda/traffic.h counts it: a table, or one JSON object.
void print_traffic(const Workload& workload, int64_t batch, DType dtype, bool json);

}  // namespace pursuit::bench
