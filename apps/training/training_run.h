#pragma once
#include <optional>
#include <string>
#include <utility>

#include "apps/run/fields.h"
#include "apps/run/run_folder.h"
#include "apps/run/run_lock.h"
#include "apps/training/model_sizes.h"
#include "apps/training/ranks.h"
#include "apps/training/task.h"

namespace CLI {
class App;
}

namespace pursuit::apps {

// The options of `train` that are no part of the run itself.
struct RunOptions {
  std::string recipe, out, resume;
  bool quiet = false, overwrite = false, no_graph = false, verify = true;
  RankOptions ranks;

  const std::string& folder() const { return resume.empty() ? out : resume; }
};
// What --recipe and --resume name is read before the parser runs, see apps/command/command_line.h.
// `default_out` is for the help.
void add_run_options(CLI::App& command, RunOptions& options, const std::string& default_out);

// Throws Error if --out holds a run already that is not to be replaced, or one that is being trained.
void check_folder(const RunOptions& options);

// Throws CLI::ValidationError that names an option which may not stand beside --resume.
void check_resume_options(const CLI::App& train);

// Whether an option of `train` may stand beside --resume: what changes no result, and how long the run is.
bool may_change(const std::string& option);

// What a training begins with.
struct RunStart {
  std::optional<TrainingLock> lock;      // of the folder that --resume names
  std::optional<Checkpoint> checkpoint;  // that it goes on from
};
// Before anything is built: locks and reads what --resume names. `config` is the run's, with what the command
// line changes in it. Throws Error that names the file and the field if it is not that of the checkpoint.
// Of several ranks the first holds the lock.
RunStart start_run(const std::string& app, const nlohmann::ordered_json& config, const RunOptions& options,
                   int rank);
// Trains to the end of the epochs, or until a signal (apps/terminal/signals.h). The run's folder gets
// config.json, checkpoint.safetensors, the one before it (and best.safetensors), metrics.jsonl, TensorBoard
// events, and what the task's finish() writes. What is not finite is never saved. Going on with `resume`
// gives the same bits and records as a run that was never stopped; what a resumed run changes stands in
// config.json under "changes", with the step from which on it holds. A run that is
// finished is left as it is. Of several ranks the first writes and speaks for all. Returns the process's exit
// code.
int run_training(Task& task, const RunOptions& options, RunStart start, distributed::Communicator& ranks);

// `train` of an app whose task is AppTask(config, options, ranks). The config of a run that goes on is held
// against the tensors of its checkpoint, see check_config.
template <class AppTask, class Config>
int train(const Config& config, const RunOptions& options, distributed::Communicator& ranks) {
  RunStart start = start_run(Config::app, fields_to_json(config), options, ranks.rank());
  if (start.checkpoint)
    check_config<typename Config::Model>(config, config_path(options.resume), *start.checkpoint);
  validate(config);
  AppTask task(config, options, ranks);
  return run_training(task, options, std::move(start), ranks);
}

}  // namespace pursuit::apps
