#pragma once
#include <memory>
#include <string>

#include "apps/lm/config.h"
#include "apps/training/checkpoint.h"

namespace pursuit::lm {

// A model ready to be used, from a run's folder or from a checkpoint file.
struct LoadedModel {
  Config config;
  apps::RunState state;
  data::Vocabulary vocabulary;
  std::unique_ptr<nn::TransformerLm> model;
  std::string name;  // the folder's or the file's, for tables
};
struct LoadOptions {
  bool ema = false;
  std::string device = "auto", dtype = {};  // dtype empty: the run's
  int threads = 0;
};
// Off the tape, in evaluation mode, on the device. Also sets the number of threads.
LoadedModel load_model(const std::string& run_or_file, const LoadOptions& options = {});

}  // namespace pursuit::lm
