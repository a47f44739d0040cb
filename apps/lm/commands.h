#pragma once
#include <set>
#include <string>
#include <vector>

#include "apps/lm/config.h"
#include "apps/study/evaluation.h"
#include "apps/study/inspect_options.h"
#include "apps/study/quantize_command.h"
#include "apps/training/training_run.h"
#include "data/text/word_changes.h"
#include "nn/generate.h"

// The subcommands. Each returns the process's exit code: 0 done, 1 failed.
namespace pursuit::lm {

int train(const Config& config, const apps::RunOptions& options,
          distributed::Communicator& ranks = distributed::alone());

struct EvalOptions : apps::EvalOptions {
  std::string split = "test";
  std::vector<std::string> windows;    // names of Window; empty: the rows of training
  std::set<data::WordChange> changes;  // evaluated one after another, beside the text as it is
  data::WordChangeOptions swap;        // of all of them
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

int quantize(const apps::QuantizeOptions& options);

struct InspectOptions : apps::InspectOptions {
  std::string split = "valid";

  InspectOptions() { samples = 64; }
};
int inspect_run(const InspectOptions& options);

}  // namespace pursuit::lm
