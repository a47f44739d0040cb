#pragma once
#include "apps/study/comparison_page.h"
#include "apps/study/run_page.h"
#include "engine/base/error.h"
#include "tests/fuzz/fuzz.h"

namespace pursuit::fuzz {

// Reads a run's folder, whose files are the input, as `report` and `compare` do.
template <class Record> void read_run(std::string_view input) {
  const std::string folder = write_folder("run", input);
  try {
    apps::write_report<Record>(folder);
  } catch (const Error&) {
  }
  const auto comparison = apps::compare_runs<Record>({folder, folder}, path_of("comparison.html"));
  apps::to_text(apps::to_table(comparison));
  apps::to_json(comparison).dump();
}

inline std::vector<std::string> run_seeds(const std::string& folder) {
  return {read_folder(folder,
                      {"config.json", "metrics.jsonl", "eval.json", "inspect.json", "inspections.jsonl"})};
}

}  // namespace pursuit::fuzz
