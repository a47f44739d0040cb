#include "apps/lm/run.h"

namespace pursuit::lm {

LoadedModel load_model(const std::string& run_or_file, const apps::LoadOptions& options) {
  LoadedModel loaded{apps::load_model<Config, nn::TransformerLm>("lm", run_or_file, options), {}};
  loaded.vocabulary = vocabulary(loaded.config);
  loaded.model->set_dtype(dtype_from_name(loaded.config.dtype));
  return loaded;
}

}  // namespace pursuit::lm
