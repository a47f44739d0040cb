#pragma once
#include "apps/lm/config.h"
#include "apps/lm/results.h"
#include "apps/training/run_record.h"

namespace pursuit::lm {

using RunRecord = apps::RunRecord<Config, read_results>;

}  // namespace pursuit::lm
