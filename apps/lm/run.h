#pragma once
#include <string>

#include "apps/lm/config.h"
#include "apps/training/loaded_model.h"

namespace pursuit::lm {

struct LoadedModel : apps::LoadedModel<Config, nn::TransformerLm> {
  data::Vocabulary vocabulary;
};
// From a run's folder or a checkpoint file, ready to be used, see apps::load_model.
LoadedModel load_model(const std::string& run_or_file, const apps::LoadOptions& options = {});

// The files of a split of a run's data. Throws Error that names the others if there is no such split.
const std::vector<data::TextFile>& files_of(const data::TextSource& source, data::TextSplit split,
                                            const Config& config);

}  // namespace pursuit::lm
