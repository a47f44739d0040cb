#pragma once
#include <string>

#include "apps/route/route.h"
#include "tests/fuzz/fuzz.h"

namespace pursuit::fuzz {

// The folder of a run that took a moment, evaluated.
inline std::string toy_run(route::Kind kind) {
  route::Config config;
  config.kind = kind;
  config.nodes = 5;
  config.instances = config.test_instances = 2;
  config.label_rounds = 1;
  config.dim = config.hidden = 4;
  config.layers = config.heads = 1;
  config.norm = nn::NodeNormKind::batch;
  config.batch_size = 2;
  config.steps = 2;
  config.threads = 1;
  config.device = "cpu";
  const std::string folder = path_of(std::string("toy-") + choice_name(kind));
  apps::RunOptions run;
  run.out = folder;
  run.quiet = true;
  route::train(config, run);
  route::EvalOptions evaluation;
  evaluation.checkpoint = folder;
  evaluation.quiet = true;
  route::eval(evaluation);
  return folder;
}

}  // namespace pursuit::fuzz
