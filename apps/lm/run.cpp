#include "apps/lm/run.h"

#include <thread>

#include "engine/parallel.h"

namespace pursuit::lm {

LoadedModel load_model(const std::string& run_or_file, const LoadOptions& options) {
  set_num_threads(options.threads > 0 ? options.threads : int(std::thread::hardware_concurrency()));
  const apps::Checkpoint checkpoint = apps::open_checkpoint("lm", run_or_file);
  LoadedModel loaded;
  loaded.config = config_from_json(checkpoint.config, checkpoint.path);
  loaded.config.device = options.device;
  if (!options.dtype.empty()) loaded.config.dtype = options.dtype;
  validate(loaded.config);
  loaded.state = checkpoint.state;
  loaded.name = checkpoint.name;
  loaded.vocabulary = vocabulary(loaded.config);
  loaded.model = std::make_unique<nn::TransformerLm>(model_config(loaded.config));
  apps::load_parameters(*loaded.model, checkpoint, options.ema);
  for (const nn::NamedTensor& p : loaded.model->parameters()) *p.tensor = p.tensor->detach();
  loaded.model->to(device_from_name(loaded.config.device));
  loaded.model->set_dtype(dtype_from_name(loaded.config.dtype));
  return loaded;
}

}  // namespace pursuit::lm
