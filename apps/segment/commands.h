#pragma once
#include <optional>
#include <string>
#include <vector>

#include "apps/segment/config.h"
#include "apps/training/comparison.h"
#include "apps/training/loaded_model.h"
#include "apps/training/training_run.h"

// The subcommands. Each returns the process's exit code: 0 done, 1 failed, 2 wrong usage.
namespace pursuit::segment {

int train(const Config& config, const apps::RunOptions& options,
          distributed::Communicator& ranks = distributed::alone());

// How a trained model is used, by eval and predict: as its run says where nothing else is said.
struct UseOptions {
  std::string checkpoint;
  apps::LoadOptions load;
  std::vector<double> scales;
  std::optional<bool> flip;
  std::optional<int64_t> stride;
  int64_t short_side = -1, long_side = -1, batch_size = 0;  // -1 and 0: the run's own
};

struct EvalOptions : UseOptions {
  std::string data, format, split = "test";  // data empty: the run's own
  std::vector<std::string> corruptions;      // "all" or names
  std::vector<int> severities = {1};
  std::string frost, save_predictions;  // folders
  int64_t first = 0, limit = 0;
  uint64_t seed = 0;
  bool quiet = false, skip_bad = false, json = false;
};
int eval(const EvalOptions& options);

struct PredictOptions : UseOptions {
  std::string out;  // empty: beside the checkpoint
  std::vector<std::string> images;
  double opacity = 0.5;
  bool json = false;
};
int predict(const PredictOptions& options);

// Scores in percent. Throws Error that names the folder and what it lacks if one is no run.
apps::Comparison compare_runs(const std::vector<std::string>& folders);

// Writes report.html from what the run's folder holds (metrics.jsonl, eval.json, config.json and the model).
void write_report(const std::string& folder);

// A page on several runs side by side; throws Error that names a folder that is no run.
void write_comparison(const std::string& file, const std::vector<std::string>& folders);

}  // namespace pursuit::segment
