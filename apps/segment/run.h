#pragma once
#include <string>

#include "apps/segment/commands.h"
#include "apps/segment/predictor.h"
#include "nn/segmenter.h"

namespace pursuit::segment {

using LoadedModel = apps::LoadedModel<Config, nn::Segmenter>;

// From a run's folder or a checkpoint file, ready to be used, see apps::load_model.
inline LoadedModel load_model(const std::string& run_or_file, const apps::LoadOptions& options = {}) {
  return apps::load_model<Config, nn::Segmenter>("segment", run_or_file, options);
}

// How a run's own evaluations look at pictures.
Views views_of(const Config& config);
// Pictures are looked at as the config says; refers to the model.
Predictor predictor_of(const nn::Segmenter& model, const Config& config);
// As the options say, which go into the config. Throws Error that names the option.
Predictor predictor_of(LoadedModel& loaded, const UseOptions& options);

// Copies the encoder of a run or checkpoint of `classify` into the model, its position embeddings resized.
// Throws Error that names what does not fit.
void load_encoder(nn::Segmenter& model, const std::string& run_or_file);

}  // namespace pursuit::segment
