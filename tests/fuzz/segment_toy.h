#pragma once
#include <string>

#include "apps/segment/commands.h"
#include "apps/segment/pipeline.h"
#include "apps/segment/results.h"
#include "apps/study/inspect_command.h"
#include "tests/fuzz/fuzz.h"

namespace pursuit::fuzz {

// The folder of a run that took a moment, evaluated and inspected.
inline std::string toy_run() {
  segment::Config config;
  config.height = config.width = 32;
  config.patch = 16;
  config.dim = 4;
  config.depth = config.heads = 1;
  config.mlp_ratio = 1;
  config.limit = config.test_limit = config.batch_size = 2;
  config.epochs = config.threads = 1;
  config.attention = "rpc";
  config.inspect_every = 1;
  config.workers = 0;
  config.device = "cpu";
  const std::string folder = path_of("toy");
  apps::RunOptions run;
  run.out = folder;
  run.quiet = true;
  segment::train(config, run);
  segment::EvalOptions options;
  options.checkpoint = folder;
  options.corruptions = {"fog"};
  options.quiet = true;
  segment::eval(options);
  apps::InspectPicturesOptions inspection;
  inspection.checkpoint = folder;
  inspection.samples = inspection.decomposed = 1;
  apps::inspect_pictures<segment::RunRecord>(inspection, segment::show_split);
  return folder;
}

}  // namespace pursuit::fuzz
