#pragma once
#include "apps/segment/config.h"
#include "apps/segment/results.h"
#include "apps/training/run_record.h"

namespace pursuit::segment {

using RunRecord = apps::RunRecord<Config, read_results>;

// The evaluation that stands for a run: of the test split if there is one, else of the one watched in
// training, looked at as the run's settings say. Null if there is none.
const Results* main_evaluation(const std::vector<Results>& results, const Config& config);

}  // namespace pursuit::segment
