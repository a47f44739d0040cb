#pragma once
#include "apps/segment/config.h"
#include "apps/segment/results.h"
#include "apps/training/run_record.h"

namespace pursuit::segment {

using RunRecord = apps::RunRecord<Config, read_results>;

}  // namespace pursuit::segment
