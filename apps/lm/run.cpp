#include "apps/lm/run.h"

namespace pursuit::lm {

LoadedModel load_model(const std::string& run_or_file, const apps::LoadOptions& options) {
  LoadedModel loaded{apps::load_model<Config, nn::TransformerLm>("lm", run_or_file, options), {}};
  loaded.vocabulary = vocabulary(loaded.config);
  loaded.model->set_dtype(loaded.config.dtype);
  return loaded;
}

const std::vector<data::TextFile>& files_of(const data::TextSource& source, data::TextSplit split,
                                            const Config& config) {
  // Every text has a train and a valid split.
  if (source.split(split).empty())
    fail("lm",
         data_name(config) + " has no split " + data::name_of(split) + ": give --split valid, or train");
  return source.split(split);
}

}  // namespace pursuit::lm
