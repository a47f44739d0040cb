#pragma once
#include <optional>
#include <string>

#include "apps/common/run_folder.h"
#include "apps/segment/config.h"
#include "apps/segment/results.h"

namespace pursuit::segment {

// What a run's folder holds, as far as it can be read, for the report and the comparison.
struct RunRecord : apps::RunFolder {
  std::optional<Config> config;
  std::optional<Results> results;
  explicit RunRecord(const std::string& folder);
  std::optional<int64_t> parameter_count() const;  // empty if the config makes no model
};

}  // namespace pursuit::segment
