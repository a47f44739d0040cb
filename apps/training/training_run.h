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
#include "engine/cpu/parallel.h"

namespace CLI {
class App;
}

namespace pursuit::apps {

// The options of `train` that are not part of the config.
struct RunOptions {
  std::string recipe, out, resume;
  bool quiet = false, overwrite = false, no_graph = false, verify = true;
  RankOptions ranks;

  const std::string& folder() const { return resume.empty() ? out : resume; }
};
// Recipe and resumed config are read before the parser runs (apps/command/command_line.h). `default_out` is
// shown in the help.
void add_run_options(CLI::App& command, RunOptions& options, const std::string& default_out);

// Throws Error if --out holds a run and --overwrite is not given, or a run that is being trained.
void check_folder(const RunOptions& options);

// Throws CLI::ValidationError that names a given option which --resume does not allow.
void check_resume_options(const CLI::App& train);

// True if --resume allows the option: it changes the run's length or device, but not its result (except --ranks
// with a ResNet or FAN, whose batch norm takes its statistics over all ranks).
bool may_change(const std::string& option);

// The state in which training starts.
struct RunStart {
  std::optional<TrainingLock> lock;      // of the resumed folder, on rank 0
  std::optional<Checkpoint> checkpoint;  // to resume from
};
// Locks the folder of --resume and reads its checkpoint, before anything is built. `config` is the run's,
// with the changes of the command line. Throws Error that names file and field if it differs from the
// checkpoint's.
RunStart start_run(const std::string& app, const nlohmann::ordered_json& config, const RunOptions& options,
                   int rank);
// Trains to the last step, or until a signal (apps/terminal/signals.h). Writes to the run's folder
// config.json, checkpoint.safetensors, checkpoint-previous.safetensors (and best.safetensors), metrics.jsonl,
// TensorBoard events and what the task's finish() writes; never saves weights that are not finite. A resumed
// run gives the same bits and records as one that was never stopped; options it changes are listed in
// config.json under "changes", with the step from which they hold. A finished run is not changed. Only rank 0
// writes and prints. Returns the process's exit code.
int run_training(Task& task, const RunOptions& options, RunStart start, distributed::Communicator& ranks);

// The `train` command of an app with the task AppTask(config, options, ranks). The config of a resumed run is
// compared with the tensors of its checkpoint (check_config).
template <class AppTask, class Config>
int train(const Config& config, const RunOptions& options, distributed::Communicator& ranks) {
  if constexpr (requires { config.is_quantized(); })
    if (config.is_quantized())
      fail("train",
           options.folder() + " is quantised and cannot be trained; train the run that it was made of");
  if (config.threads > 0) set_num_threads(config.threads);
  RunStart start = start_run(Config::app, fields_to_json(config), options, ranks.rank());
  if (start.checkpoint)
    check_config<typename Config::Model>(config, config_path(options.resume), *start.checkpoint);
  validate(config);
  AppTask task(config, options, ranks);
  return run_training(task, options, std::move(start), ranks);
}

}  // namespace pursuit::apps
