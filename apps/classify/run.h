#pragma once
#include <memory>
#include <string>

#include "apps/classify/config.h"
#include "apps/training/checkpoint.h"
#include "nn/vit.h"

namespace pursuit::classify {

// A model ready to be used: from a run's folder or from a checkpoint file, whose metadata holds the config
// too.
struct LoadedModel {
  Config config;
  apps::RunState state;
  std::unique_ptr<nn::VisionTransformer> model;
  std::string name;  // the folder's name, for tables
};
LoadedModel load_model(const std::string& run_or_file, bool use_ema = false);

}  // namespace pursuit::classify
