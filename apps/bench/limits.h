#pragma once
#include <string>
#include <vector>

#include "apps/bench/peak.h"
#include "apps/bench/workload.h"
#include "apps/run/json.h"

namespace pursuit::bench {

// Adds to a JSON line of a workload on the CPU, which has its "items_per_s": what one step multiplies and adds
// ("gflops"), the peak beside it, and how the time divides into "products", "attention", "norms" and "rest"
// ("parts_ms"). "of_peak" is left out where there are no products or no peak is known, of int8 factors and of
// several types; "of_memory" where no weights are read for each item.
void add_limits(nlohmann::ordered_json& line, const Workload& workload, const Step& step, const Peak& peak,
                DType dtype, double ms);

// The columns of a table of limits, and the row of a line with them.
std::vector<std::string> limit_columns();
std::vector<std::string> limit_row(const nlohmann::ordered_json& line);

// The instructions of products with bf16 factors: "amx_bf16", "avx512_bf16", or "f32" if they are widened.
std::string bf16_instructions();

}  // namespace pursuit::bench
