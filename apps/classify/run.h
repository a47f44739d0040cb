#pragma once
#include <string>

#include "apps/classify/config.h"
#include "apps/training/loaded_model.h"
#include "nn/vit.h"

namespace pursuit::classify {

using LoadedModel = apps::LoadedModel<Config, nn::VisionTransformer>;

// From a run's folder or a checkpoint file, ready to be used, see apps::load_model.
inline LoadedModel load_model(const std::string& run_or_file, const apps::LoadOptions& options = {}) {
  return apps::load_model<Config, nn::VisionTransformer>("classify", run_or_file, options);
}

}  // namespace pursuit::classify
