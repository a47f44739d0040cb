#pragma once
#include "apps/study/comparison.h"
#include "engine/base/error.h"
#include "tests/fuzz/fuzz.h"

namespace pursuit::fuzz {

// As `report` and `compare` read a run's folder, whose files are the input.
template <class WriteReport, class Compare>
void read_run(std::string_view input, const WriteReport& write_report, const Compare& compare) {
  const std::string folder = write_folder("run", input);
  try {
    write_report(folder);
  } catch (const Error&) {
  }
  const apps::Comparison comparison = compare({folder, folder}, path_of("comparison.html"));
  apps::to_text(apps::to_table(comparison));
  apps::to_json(comparison).dump();
}

inline std::vector<std::string> run_seeds(const std::string& folder) {
  return {read_folder(folder, {"config.json", "metrics.jsonl", "eval.json", "inspect.json"})};
}

}  // namespace pursuit::fuzz
