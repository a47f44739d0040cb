#pragma once
#include <string>
#include <vector>

#include "apps/lm/config.h"
#include "apps/study/comparison.h"
#include "apps/study/loaded_model.h"
#include "apps/training/training_run.h"
#include "data/text/word_swap.h"
#include "nn/generate.h"

// The subcommands. Each returns the process's exit code: 0 done, 1 failed.
namespace pursuit::lm {

int train(const Config& config, const apps::RunOptions& options,
          distributed::Communicator& ranks = distributed::alone());

struct EvalOptions {
  std::string checkpoint, data;  // data empty: the run's own
  apps::LoadOptions load;
  std::string split = "test";
  std::vector<std::string> windows;  // blocks, documents, sliding; none: as the run was trained
  bool word_swap = false;
  data::WordSwapOptions swap;
  int64_t limit = 0;       // tokens
  int64_t batch_size = 0;  // 0: the run's
  bool quiet = false, json = false;
};
int eval(const EvalOptions& options);

struct GenerateOptions {
  std::string checkpoint, prompt;
  apps::LoadOptions load;
  nn::GenerationOptions generation;
  uint64_t seed = 0;
  bool no_unknown = false, no_cache = false;
};
int generate_text(const GenerateOptions& options);

struct InspectOptions {
  std::string checkpoint, data;
  apps::LoadOptions load;
  std::string split = "valid";
  int64_t sequences = 64;
  bool json = false;
};
int inspect_run(const InspectOptions& options);

// See apps::CompareRuns.
apps::Comparison compare_runs(const std::vector<std::string>& folders, const std::string& page = {});

// Writes report.html from what the run's folder holds.
void write_report(const std::string& folder);

}  // namespace pursuit::lm
