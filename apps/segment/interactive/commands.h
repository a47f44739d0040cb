#pragma once
#include <optional>
#include <string>
#include <vector>

#include "apps/segment/interactive/config.h"
#include "apps/study/evaluation.h"
#include "apps/training/training_run.h"

// The subcommands of `segment interactive`. Each returns the process's exit code: 0 done, 1 failed, 2 wrong
// usage.
namespace pursuit::segment::interactive {

int run(std::vector<std::string> args);  // the whole command line

int train(const Config& config, const apps::RunOptions& options,
          distributed::Communicator& ranks = distributed::alone());

struct EvalOptions : apps::EvalOptions {
  std::string format;
  data::Split split = data::Split::test;
  bool skip_bad = false;
  std::optional<uint64_t> robot_seed;  // empty: the deepest pixel
  // What is not given stays as in the run.
  std::optional<bool> propagate, clamp;
  std::optional<int> key_iterations;
  std::optional<double> theta, noise;

  // Returns the config with these. Throws Error that names the option.
  Config of(Config config) const;
  std::string arguments() const;  // as on a command line: " --key-iterations 1"
};
int eval(const EvalOptions& options);

struct ServeCommand {
  std::string checkpoint;
  apps::LoadOptions load;
  int port = 0;
};
int serve(const ServeCommand& options);

}  // namespace pursuit::segment::interactive
