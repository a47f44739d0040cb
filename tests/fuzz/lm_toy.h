#pragma once
#include <string>

#include "apps/lm/commands.h"
#include "apps/lm/results.h"
#include "tests/fuzz/fuzz.h"

namespace pursuit::fuzz {

// The folder of a run that took a moment, evaluated and inspected.
inline std::string toy_run() {
  lm::Config config;
  config.dim = config.hidden = 4;
  config.depth = config.heads = 1;
  config.context = 8;
  config.batch_size = 4;
  config.steps = 2;
  config.eval_tokens = 64;
  config.vocabulary_limit = 12;
  config.threads = 1;
  config.device = "cpu";
  const std::string folder = path_of("toy");
  apps::RunOptions run;
  run.out = folder;
  run.quiet = true;
  lm::train(config, run);
  lm::EvalOptions evaluation;
  evaluation.checkpoint = folder;
  evaluation.limit = 64;
  evaluation.quiet = true;
  lm::eval(evaluation);
  lm::InspectOptions inspection;
  inspection.checkpoint = folder;
  inspection.samples = 2;
  lm::inspect_run(inspection);
  return folder;
}

}  // namespace pursuit::fuzz
