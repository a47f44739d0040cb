#pragma once
#include <memory>
#include <optional>
#include <string>

#include "apps/run/fields.h"
#include "apps/training/checkpoint.h"
#include "apps/training/fields.h"
#include "apps/training/model_sizes.h"
#include "engine/cpu/parallel.h"
#include "nn/inference.h"
#include "nn/quantization/convert.h"

namespace pursuit::apps {

// Options of all commands that load a trained model.
struct LoadOptions {
  std::optional<EvalWeights> weights = {};  // empty: those of the run's own evaluations
  std::string device = "auto";
  std::optional<DType> dtype = {};  // empty: the run's
  int threads = 0;                  // 0: unchanged
  bool verify = true;               // compare checksums
  bool simulated = false;           // a quantised model: in f32 on the grids, without products of integers

  std::string arguments() const;  // those that results depend on: "--weights raw --dtype bf16"
};

// The options that not every app has.
struct LoadChoices {
  bool device = true;      // --device and --dtype; false: the app computes in f32 on the CPU
  bool simulated = false;  // --simulated; true: the app has `quantize`
};

template <class Config> struct LoadedModel {
  Config config;  // with the device and dtype of the options
  RunState state;
  std::unique_ptr<typename Config::Model> model;
  std::unique_ptr<nn::Inference> inference;
  std::string name;     // of the folder or the file, for tables
  std::string weights;  // "raw" or "ema"
};

// Checks scales and grids, and sets how the model runs. Throws Error that names the file and the tensor.
void use_quantized(nn::Module& model, const std::string& path, bool simulated);

// Loads the model of a checkpoint onto the device, in evaluation mode and without gradients. The app supplies
// validate(config), model_config(config) and model_sizes(config).
template <class Config>
LoadedModel<Config> load_model(const Checkpoint& checkpoint, const LoadOptions& options) {
  using Model = typename Config::Model;
  if (options.threads > 0) set_num_threads(options.threads);
  LoadedModel<Config> loaded{fields_from_json<Config>(checkpoint.config, checkpoint.path),
                             checkpoint.state,
                             nullptr,
                             nullptr,
                             checkpoint.name,
                             {}};
  check_config<Model>(loaded.config, checkpoint.path, checkpoint);
  bool quantized = false;
  if constexpr (requires { loaded.config.is_quantized(); }) quantized = loaded.config.is_quantized();
  loaded.config.device = options.device;
  if (options.dtype) loaded.config.dtype = *options.dtype;
  validate(loaded.config);
  loaded.model = std::make_unique<Model>(model_config(loaded.config));
  loaded.weights = options.weights           ? choice_name(*options.weights)
                   : has_average(checkpoint) ? evaluated_weights(loaded.config)
                                             : "raw";
  load_parameters(*loaded.model, checkpoint, loaded.weights == "ema");
  for (const nn::NamedTensor& p : loaded.model->parameters()) *p.tensor = p.tensor->detach();
  const Device device = device_from_name(loaded.config.device);
  if (options.simulated && !quantized)
    fail("checkpoint", checkpoint.path + " is not quantised; leave --simulated out");
  loaded.model->to(device);
  if (quantized) use_quantized(*loaded.model, checkpoint.path, options.simulated);
  loaded.inference = std::make_unique<nn::Inference>(*loaded.model);
  // Image models compute in the dtype of their input; language models, whose input is integers, are told.
  if constexpr (requires { loaded.model->set_dtype(loaded.config.dtype); })
    loaded.model->set_dtype(loaded.config.dtype);
  return loaded;
}

template <class Config>
LoadedModel<Config> load_model(const std::string& run_or_file, const LoadOptions& options = {}) {
  return load_model<Config>(open_checkpoint(Config::app, run_or_file, options.verify), options);
}

}  // namespace pursuit::apps
