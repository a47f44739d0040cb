#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "apps/classify/config.h"
#include "apps/common/table.h"

namespace pursuit::classify {

// One measure over the runs of a group, as far as they have it.
struct Measure {
  std::vector<double> values;
  double mean() const;
  double spread() const;  // sample standard deviation; 0 for a single value
};

// Runs that differ in their seed alone, or in what changes no result (threads, caches, checkpoint intervals).
struct RunGroup {
  std::vector<std::string> names;
  Config config;  // of the first
  std::optional<int64_t> parameters;
  std::map<std::string, Measure> measures;  // by the column's name; accuracies, errors and mCE in percent
};

struct Comparison {
  std::vector<RunGroup> groups;          // in the order in which their first run was given
  std::vector<std::string> columns;      // of the measures that any group has
  std::vector<std::string> differences;  // options in which the groups differ
  std::vector<std::string> notes;        // what makes the rows unlike each other
};
// Throws Error that names the folder and what it lacks if one is no run.
Comparison compare_runs(const std::vector<std::string>& folders);

apps::Table to_table(const Comparison& comparison);
nlohmann::ordered_json to_json(const Comparison& comparison);

}  // namespace pursuit::classify
