#pragma once
#include <memory>
#include <string>

#include "apps/segment/commands.h"
#include "apps/segment/predictor.h"
#include "apps/training/checkpoint.h"

namespace pursuit::segment {

// A model ready to be used: from a run's folder or from a checkpoint file, whose metadata holds the config
// too.
struct LoadedModel {
  Config config;
  apps::RunState state;
  std::unique_ptr<nn::Segmenter> model;
  std::string name;  // the folder's name, for tables
};
LoadedModel load_model(const std::string& run_or_file, bool use_ema = false);

// Pictures are looked at as the config says; refers to the model.
Predictor predictor_of(const nn::Segmenter& model, const Config& config);
// As the options say; sets the threads and moves the model to the device. Throws Error that names the option.
Predictor predictor_of(LoadedModel& loaded, const UseOptions& options);

// Copies the encoder of a run or checkpoint of `classify` into the model, its position embeddings resized.
// Throws Error that names what does not fit.
void load_encoder(nn::Segmenter& model, const std::string& run_or_file);

}  // namespace pursuit::segment
