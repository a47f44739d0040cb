#pragma once
#include <string>

#include "apps/classify/commands.h"
#include "apps/classify/pipeline.h"
#include "apps/classify/results.h"
#include "apps/study/inspect_command.h"
#include "tests/fuzz/fuzz.h"

namespace pursuit::fuzz {

// The folder of a run that took a moment, evaluated and inspected.
inline std::string toy_run() {
  classify::Config config;
  config.patch = 16;
  config.dim = 4;
  config.depth = config.heads = 1;
  config.mlp_ratio = 1;
  config.limit = config.test_limit = config.batch_size = 4;
  config.epochs = config.threads = 1;
  config.attention = "rpc";
  config.inspect_every = 1;
  config.workers = 0;
  config.device = "cpu";
  const std::string folder = path_of("toy");
  apps::RunOptions run;
  run.out = folder;
  run.quiet = true;
  classify::train(config, run);
  classify::EvalOptions options;
  options.checkpoint = folder;
  options.corruptions = {"fog", "contrast"};
  options.severities = {1, 5};
  options.attacks = {"fgsm"};
  options.budgets = {1, 2};
  options.quiet = true;
  classify::eval(options);
  apps::InspectPicturesOptions inspection;
  inspection.checkpoint = folder;
  inspection.samples = inspection.decomposed = 1;
  apps::inspect_pictures<classify::RunRecord>(inspection, classify::show_split);
  return folder;
}

}  // namespace pursuit::fuzz
