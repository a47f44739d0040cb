#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/common/run_folder.h"
#include "apps/common/table.h"

// Several runs side by side, whatever the app.
namespace pursuit::apps {

struct Column {
  std::string name;
  int decimals = 2;
  Best best = Best::highest;
  bool duration = false;  // in seconds
};
// "train loss", "images/s" (or another unit's) and "train time", which every run has.
std::vector<Column> training_columns(const std::string& unit = "images");

// What an app says of one run.
struct ComparedRun {
  std::string name;
  nlohmann::ordered_json options;  // of its config, see options_to_json
  std::string attention;
  std::optional<int64_t> parameters;
  std::vector<std::pair<std::string, double>>
      measures;  // by the column's name; what is not finite is left out
  // What was evaluated; count 0: nothing was.
  std::string data;
  bool ema = false;
  int64_t count = 0;

  void add(const std::string& column, std::optional<double> value, double scale = 1) {
    if (value) measures.emplace_back(column, *value * scale);
  }
  // Those of training_columns().
  void add_training(const RunFolder& run, const std::string& unit = "images");
};
// Throws Error that names the folder and what it lacks.
[[noreturn]] void fail_no_run(const RunFolder& run);

// One measure over the runs of a group, as far as they have it.
struct Measure {
  std::vector<double> values;
  double mean() const;
  double spread() const;  // sample standard deviation; 0 for a single value
};

// Runs that differ in their seed alone, or in what changes no result (threads, caches, checkpoint intervals).
struct RunGroup {
  std::vector<std::string> names;
  ComparedRun first;
  std::map<std::string, Measure> measures;  // by the column's name
};

struct Comparison {
  std::vector<RunGroup> groups;          // in the order in which their first run was given
  std::vector<Column> columns;           // of the measures that any group has
  std::vector<std::string> differences;  // options in which the groups differ
  std::vector<std::string> notes;        // what makes the rows unlike each other
};
Comparison compare_runs(const std::vector<ComparedRun>& runs, const std::vector<Column>& columns);

Table to_table(const Comparison& comparison);
Table differences_table(const Comparison& comparison);  // a row for every option in which the groups differ
nlohmann::ordered_json to_json(const Comparison& comparison);
// To stdout: the table and what the options of the runs differ in, or all of it as JSON.
void print(const Comparison& comparison, bool markdown, bool json);

}  // namespace pursuit::apps
