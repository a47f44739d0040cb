#pragma once
#include <memory>
#include <optional>
#include <string>

#include "apps/classify/config.h"
#include "nn/optim.h"
#include "nn/vit.h"

namespace pursuit::classify {

// Where a run stands; with the config and the tensors this is all a checkpoint holds.
struct Progress {
  int64_t step = 0, epoch = 0, batch = 0;  // optimizer steps done; the next batch to take
  double best_accuracy = 0;
  // Of the epoch under way, so that a resumed epoch reports the same mean loss.
  double loss_sum = 0;
  int64_t loss_count = 0;
};

// A run's folder: config.json, checkpoint.safetensors (parameters by timm names, optimizer state, EMA;
// Progress in the metadata), metrics.jsonl, TensorBoard events, report.html.
std::string checkpoint_path(const std::string& folder);

// A model ready to be used: from a run's folder or from a checkpoint file, whose metadata holds the config
// too.
struct LoadedModel {
  Config config;
  Progress progress;
  std::unique_ptr<nn::VisionTransformer> model;
  std::string name;  // the folder's name, for tables
};
LoadedModel load_model(const std::string& run_or_file, bool use_ema = false);

void save_checkpoint(const std::string& folder, const Config& config, const Progress& progress,
                     nn::VisionTransformer& model, nn::Optimizer& optimizer, const nn::Ema* ema);
// Restores all of it; throws Error that names the file and the missing, unexpected or misshapen tensors.
Progress load_checkpoint(const std::string& folder, nn::VisionTransformer& model, nn::Optimizer& optimizer,
                         nn::Ema* ema);

// Copies values by name into the model; throws Error that lists missing, unexpected and mismatched names.
void load_parameters(nn::VisionTransformer& model, const std::vector<std::pair<std::string, Tensor>>& tensors,
                     const std::string& file);

}  // namespace pursuit::classify
