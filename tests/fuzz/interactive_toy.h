#pragma once
#include <string>

#include "apps/segment/interactive/commands.h"
#include "apps/segment/interactive/results.h"
#include "tests/fuzz/fuzz.h"

namespace pursuit::fuzz {

// The folder of a run of `segment interactive` that took a moment, evaluated.
inline std::string toy_run() {
  segment::interactive::Config config;
  config.dim = config.key_dim = 4;
  config.depth = 1;
  config.prior = nn::UnitPrior::learned;
  config.key_iterations = 1;
  config.place_unit = 32;
  config.limit = config.batch_size = 2;
  config.test_limit = config.train_clicks = 1;
  config.epochs = config.threads = 1;
  config.workers = 0;
  config.device = "cpu";
  const std::string folder = path_of("toy");
  apps::RunOptions run;
  run.out = folder;
  run.quiet = true;
  segment::interactive::train(config, run);
  segment::interactive::EvalOptions options;
  options.checkpoint = folder;
  options.limit = 1;
  options.robot_seed = 1;
  options.quiet = true;
  segment::interactive::eval(options);
  return folder;
}

}  // namespace pursuit::fuzz
