#include "apps/classify/run.h"

namespace pursuit::classify {

LoadedModel load_model(const std::string& run_or_file, bool use_ema) {
  const apps::Checkpoint checkpoint = apps::open_checkpoint("classify", run_or_file);
  LoadedModel loaded{config_from_json(checkpoint.config, checkpoint.path), checkpoint.state, nullptr,
                     checkpoint.name};
  validate(loaded.config);
  loaded.model = std::make_unique<nn::VisionTransformer>(vit_config(loaded.config));
  apps::load_parameters(*loaded.model, checkpoint, use_ema);
  return loaded;
}

}  // namespace pursuit::classify
