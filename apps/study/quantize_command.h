#pragma once
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "apps/run/files.h"
#include "apps/run/metrics.h"
#include "apps/run/run_folder.h"
#include "apps/run/run_lock.h"
#include "apps/study/loaded_model.h"
#include "apps/terminal/print.h"
#include "apps/terminal/signals.h"
#include "apps/training/new_run.h"
#include "apps/training/provenance.h"
#include "nn/quantization/convert.h"

namespace CLI {
class App;
}

namespace pursuit::apps {

struct QuantizeOptions {
  std::string checkpoint, out, data, bits = "w8a8";  // data empty: the run's
  LoadOptions load = {.device = "cpu", .dtype = DType::f32};
  int64_t samples = 512, batch_size = 32;
  uint64_t seed = 0;
  nn::WeightOptions weights;
  nn::ActivationRanges ranges;
  bool float_head = false;

  std::string arguments() const;  // as on a command line, without the runs' folders
};

// Adds the options of `quantize`; `sample` is what the model is shown: "pictures".
void add_quantize_options(CLI::App& command, QuantizeOptions& options, const std::string& sample);

// The bits of weights and activations in "w8a8", each 2 to 8. Empty if it is not of this form.
std::optional<std::pair<int64_t, int64_t>> parse_bits(const std::string& bits);

// Shows the model one batch of training samples.
using ShowBatch = std::function<void(int64_t batch)>;
struct CalibrationBatches {
  int64_t batches, samples;
  ShowBatch show;
};

// The line about what was written: sizes of both models, and what the ranges are from.
void print_quantized(const QuantizeOptions& options, const nn::Module& before, const nn::Module& after,
                     const CalibrationBatches& shown);

// The command `quantize`: makes the run `out` of the run `checkpoint`. batches_of(model, config, options)
// opens the training data; batches are drawn by the seed. Returns the exit code.
template <class Config, class BatchesOf>
int quantize_run(const QuantizeOptions& options, const BatchesOf& batches_of) {
  using Model = typename Config::Model;
  const auto bits = parse_bits(options.bits).value();
  check_not_in_training(options.out);
  if (holds_run(options.out))
    fail("quantize", options.out + ": there is a run already; choose another folder for --out");
  const auto loaded = load_model<Config>(options.checkpoint, options.load);
  if (loaded.config.is_quantized())
    fail("quantize", loaded.name + " is quantised already; give the run that it was made of");
  Config config = loaded.config;
  config.weight_bits = bits.first;
  config.activation_bits = bits.second;
  config.float_head = options.float_head;
  config.quantized_by = options.arguments() + " --weights " + loaded.weights + " of " + loaded.name;
  config.ema = 0;
  if (!options.data.empty()) config.data = options.data;
  validate(config);

  Model model(model_config(config));
  for (const nn::NamedTensor& p : model.parameters()) *p.tensor = p.tensor->detach();
  nn::WeightOptions weights = options.weights;
  weights.bits = bits.first;
  nn::quantize_weights(*loaded.model, model, weights);
  model.quantization()->ranges = options.ranges;
  catch_stop_signals();
  const CalibrationBatches shown = batches_of(model, config, options);
  {
    const NoGrad off;
    nn::calibrate(model, shown.batches, [&](int64_t batch) {
      if (!stop_requested()) shown.show(batch);
    });
  }
  if (stop_requested()) {
    note("stopped; nothing was written\n");
    return 1;
  }
  config.data = loaded.config.data;
  const TrainingLock lock = begin_new_run("quantize", options.out);
  write_config(options.out, fields_to_json(config), Config::app, "cpu");
  save_weights(checkpoint_path(options.out), Config::app, fields_to_json(config), model);
  write_file_atomically(metrics_path(options.out), "");  // it was not trained
  print_quantized(options, *loaded.model, model, shown);
  return 0;
}

}  // namespace pursuit::apps
