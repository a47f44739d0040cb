#pragma once
#include <optional>
#include <string>

#include "apps/common/run_folder.h"
#include "apps/training/model_sizes.h"
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

// What a training begins with.
struct RunStart {
  std::optional<Checkpoint> checkpoint;  // that --resume goes on from
};
// Before anything is built: reads what --resume names. `config` is that of its config.json.
RunStart start_run(const std::string& app, const RunOptions& options);
// The same, and holds the config against the tensors of the checkpoint, see check_config.
template <class Model, class Config>
RunStart start_run(const std::string& app, const Config& config, const RunOptions& options) {
  RunStart start = start_run(app, options);
  if (start.checkpoint) check_config<Model>(config, config_path(options.resume), *start.checkpoint);
  return start;
}

// Trains to the end of the epochs, or until ctrl-C. The run's folder gets config.json, checkpoint.safetensors
// (and best.safetensors), metrics.jsonl, TensorBoard events, and what the task's finish() writes. Going on
// with `resume` gives the same bits as a run that was never stopped. Returns the process's exit code.
int run_training(Task& task, const RunOptions& options, RunStart start);

}  // namespace pursuit::apps
