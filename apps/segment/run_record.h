#pragma once
#include <optional>
#include <string>

#include "apps/segment/config.h"
#include "apps/segment/results.h"
#include "apps/training/run_record.h"

namespace pursuit::segment {

// What a run's folder holds, as far as it can be read, for the report and the comparison.
struct RunRecord : apps::RunRecord<Config> {
  std::optional<Results> results;

  explicit RunRecord(const std::string& path) : apps::RunRecord<Config>(path) {
    attempt("eval.json", [&](const std::string&) { results = read_results(folder); });
  }
};

}  // namespace pursuit::segment
