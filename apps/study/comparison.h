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
#include "apps/study/statistics.h"
#include "apps/terminal/table.h"

// The comparison of several runs as a table; the same for all apps.
namespace pursuit::apps {

// Names and values of a measurement's conditions, for example {"data", "camvid test"}.
using MeasuredWith = std::vector<std::pair<std::string, std::string>>;

struct Column {
  std::string name;
  int decimals = 2;
  Best best = Best::highest;
  bool duration = false;  // values are seconds
  bool percent = false;   // values are percentages
  int place = 0;          // columns are sorted by it, left to right
  // Numbers measured under other conditions get a column of their own. The first entry, the number of
  // samples, is always in the heading; others are if they differ between columns.
  MeasuredWith with = {};
  std::string heading = {};  // "top-1 (1000)"; filled in by compare_runs
};
// The columns "train loss", "images/s" (or another unit) and "train time", which every run has.
std::vector<Column> training_columns(const std::string& unit = "images");

// An evaluation's conditions for a column. `own`: the weights of the run's own evaluations, "raw" or "ema".
MeasuredWith measured_with(const Conditions& conditions, const std::string& unit, const std::string& own);

// One run's values in a comparison, filled in by the app.
struct ComparedRun {
  std::string name = {}, group = {};
  nlohmann::ordered_json options = {};  // of its config (options_to_json)
  std::string attention = "-";
  std::optional<int64_t> parameters = {};
  std::string weights = {};                // of its evaluations: "averaged" or "raw"
  std::string programs = {};               // version and commit that measured, if known
  std::vector<std::string> problems = {};  // files that cannot be read, and why
  struct Value {
    Column column;
    double value;
    bool asks;  // true: the column is shown; false: only if another run shows it
  };
  std::vector<Value> values = {};

  // Adds value * scale, or replaces the column's earlier value. Ignores empty and non-finite values.
  void add(const Column& column, std::optional<double> value, double scale = 1, bool asks = true);
  // Records weights and program of values that are shown; `own` as in measured_with.
  void measured(const Conditions& conditions, const std::string& own);
  // Adds the values of training_columns(), and the last ones of --inspect-every.
  void add_training(const RunFolder& run, const std::string& unit = "images");
};

// The values of one column in the runs of a group; runs may lack it.
struct Measure {
  std::vector<double> values;
  std::vector<std::string> seeds;  // of the runs that have them
  double mean() const { return mean_of(values); }
  double spread() const { return deviation_of(values); }
};

// The runs of a variant of a study, or those that differ only in the seed or in options without influence on
// results (threads, caches, checkpoint intervals).
struct RunGroup {
  std::vector<std::string> names;
  ComparedRun first;
  std::map<std::string, Measure> measures;  // by the column's heading
};
std::string name_of(const RunGroup& group);  // the variant's, if it is one

struct Comparison {
  std::vector<RunGroup> groups;          // in the order of their first runs
  std::vector<Column> columns;           // those that any run shows
  MeasuredWith shared;                   // conditions that all columns share
  std::vector<std::string> differences;  // options in which the groups differ
  std::vector<std::string> notes;        // reasons why rows are not comparable; files that cannot be read
};
Comparison compare_runs(const std::vector<ComparedRun>& runs);

// The difference of a group from the first one, over the seeds that both have. Empty for the first group,
// for fewer than two such seeds, and if a seed occurs twice in a group.
std::optional<PairedDifference> difference_from_first(const Comparison& comparison, const RunGroup& group,
                                                      const Column& column);

// The values that every app shows of a run (a RunRecord); the app adds its scores.
template <class Record> ComparedRun compared_run(const Record& run, bool with_training = true) {
  ComparedRun c;
  c.name = run.name;
  c.group = run.group;
  c.options = compared_options(run);
  if constexpr (requires { describe_attention(*run.config); }) c.attention = describe_attention(*run.config);
  c.parameters = parameter_count(*run.config);
  c.problems = run.problems;
  if (with_training) c.add_training(run, Record::Config::unit);
  return c;
}

// Compares runs; compared(run) is the app's function that returns a run's ComparedRun.
template <class Record, class Compared>
Comparison compare(const std::vector<Record>& records, const Compared& compared) {
  std::vector<ComparedRun> runs;
  for (const Record& record : records) runs.push_back(compared(record));
  return compare_runs(runs);
}

Table to_table(const Comparison& comparison);
Table differences_table(const Comparison& comparison);  // a row for every option in which the groups differ
// Every number: a row for every column and group with mean, deviation, values and difference_from_first().
Table numbers_table(const Comparison& comparison);
// For example "in parentheses: pictures; data: camvid test; dtype: f32"; empty if nothing was evaluated.
std::string describe_shared(const Comparison& comparison);
nlohmann::ordered_json to_json(const Comparison& comparison);
// Prints to stdout the table and the differing options, or everything as JSON.
void print(const Comparison& comparison, bool markdown, bool json);

}  // namespace pursuit::apps
