#pragma once
#include <string>

#include "apps/training/task.h"

namespace CLI {
class App;
}

namespace pursuit::apps {

// The options of `train` that are no part of the run itself.
struct RunOptions {
  std::string recipe, out, resume;
  bool quiet = false, overwrite = false, no_graph = false;

  const std::string& folder() const { return resume.empty() ? out : resume; }
};
// What --recipe and --resume name is read before the parser runs, see apps/common/command_line.h.
// `default_out` is for the help.
void add_run_options(CLI::App& command, RunOptions& options, const std::string& default_out);

// Throws Error if --out holds a run already that is not to be replaced.
void check_folder(const RunOptions& options);

// Trains to the end of the epochs, or until ctrl-C. The run's folder gets config.json, checkpoint.safetensors
// (and best.safetensors), metrics.jsonl, TensorBoard events, and what the task's finish() writes. Going on
// with `resume` gives the same bits as a run that was never stopped. Returns the process's exit code.
int run_training(Task& task, const RunOptions& options);

}  // namespace pursuit::apps
