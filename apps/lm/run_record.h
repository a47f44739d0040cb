#pragma once
#include <string>
#include <vector>

#include "apps/lm/config.h"
#include "apps/lm/results.h"
#include "apps/training/run_record.h"

namespace pursuit::lm {

// What a run's folder holds, as far as it can be read, for the report and the comparison.
struct RunRecord : apps::RunRecord<Config> {
  std::vector<Results> results;

  explicit RunRecord(const std::string& path) : apps::RunRecord<Config>(path) {
    attempt("eval.json", [&](const std::string&) { results = read_results(folder); });
  }
};

}  // namespace pursuit::lm
