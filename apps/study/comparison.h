#pragma once
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/run/evaluations.h"
#include "apps/run/json.h"
#include "apps/run/run_folder.h"
#include "apps/study/run_record.h"
#include "apps/terminal/table.h"

// Several runs side by side, whatever the app.
namespace pursuit::apps {

// What numbers were measured with, by name: {"data", "camvid test"}.
using MeasuredWith = std::vector<std::pair<std::string, std::string>>;

struct Column {
  std::string name;
  int decimals = 2;
  Best best = Best::highest;
  bool duration = false;  // in seconds
  bool percent = false;   // of a whole
  int place = 0;          // columns of a lower one stand further left
  // Numbers that were measured with anything else stand in a column of their own. The first entry is the
  // number of samples, which is always in the heading; the others are where they tell columns apart.
  MeasuredWith with = {};
  std::string heading = {};  // "top-1 (1000)"; filled in by compare_runs
};
// "train loss", "images/s" (or another unit's) and "train time", which every run has.
std::vector<Column> training_columns(const std::string& unit = "images");

// An evaluation's conditions for a column; `own` are the weights that the run is evaluated on.
MeasuredWith measured_with(const Conditions& conditions, const std::string& unit, const std::string& own);

// What an app says of one run.
struct ComparedRun {
  std::string name = {};
  nlohmann::ordered_json options = {};  // of its config, see options_to_json
  std::string attention = "-";
  std::optional<int64_t> parameters = {};
  std::string weights = {};                // that it is evaluated on
  std::string programs = {};               // that measured, where that is known
  std::vector<std::string> problems = {};  // what of it cannot be read
  struct Value {
    Column column;
    double value;
    bool asks;  // for a column; the others stand in columns that another run asks for
  };
  std::vector<Value> values = {};  // a later one of the same column counts; what is not finite is left out

  void add(const Column& column, std::optional<double> value, double scale = 1, bool asks = true);
  // Takes note of what numbers that ask for a column were measured with, of a run that is evaluated on `own`
  // weights.
  void measured(const Conditions& conditions, const std::string& own);
  // Those of training_columns().
  void add_training(const RunFolder& run, const std::string& unit = "images");
};

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
  std::map<std::string, Measure> measures;  // by the column's heading
};
std::string name_of(const RunGroup& group);

struct Comparison {
  std::vector<RunGroup> groups;          // in the order in which their first run was given
  std::vector<Column> columns;           // of the measures that any group asks for
  MeasuredWith shared;                   // conditions that all columns share
  std::vector<std::string> differences;  // options in which the groups differ
  std::vector<std::string> notes;        // what makes the rows unlike each other, and could not be read
};
Comparison compare_runs(const std::vector<ComparedRun>& runs);

// What every comparison says of a run (RunRecord); the app adds what it measured.
template <class Record> ComparedRun compared_run(const Record& run, bool with_training = true) {
  ComparedRun c;
  c.name = run.name;
  c.options = compared_options(run);
  if constexpr (requires { describe_attention(*run.config); }) c.attention = describe_attention(*run.config);
  c.parameters = parameter_count(*run.config);
  c.problems = run.problems;
  if (with_training) c.add_training(run, Record::Config::unit);
  return c;
}

// compared(run) is what an app says of a run.
template <class Record, class Compared>
Comparison compare(const std::vector<Record>& records, const Compared& compared) {
  std::vector<ComparedRun> runs;
  for (const Record& record : records) runs.push_back(compared(record));
  return compare_runs(runs);
}

Table to_table(const Comparison& comparison);
Table differences_table(const Comparison& comparison);  // a row for every option in which the groups differ
// "in parentheses: pictures; data: camvid test; dtype: f32"; empty if nothing was evaluated.
std::string describe_shared(const Comparison& comparison);
nlohmann::ordered_json to_json(const Comparison& comparison);
// To stdout: the table and what the options of the runs differ in, or all of it as JSON.
void print(const Comparison& comparison, bool markdown, bool json);

}  // namespace pursuit::apps
