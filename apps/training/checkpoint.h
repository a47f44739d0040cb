#pragma once
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "engine/files/safetensors.h"
#include "nn/module.h"
#include "nn/optim.h"

// Checkpoints of a run's folder: safetensors that hold the parameters under their names, what the optimizer
// and the averaged weights need, and in the metadata the config and where the run stands.
namespace pursuit::apps {

// With the config and the tensors this is all that going on bit for bit needs.
struct RunState {
  int64_t step = 0, epoch = 0, batch = 0;  // optimizer steps done; the next batch to take
  double best_score = std::numeric_limits<double>::lowest();
  // Of the epoch under way, so that a resumed epoch reports the same mean loss.
  double loss_sum = 0;
  int64_t loss_count = 0;
};

std::string checkpoint_path(const std::string& folder);  // of the last one
std::string best_path(const std::string& folder);        // of the best evaluation's, if the run keeps it

struct Checkpoint {
  std::string path;
  std::string name;  // of the run's folder or the file, for tables
  nlohmann::ordered_json config;
  RunState state;
  TensorFile file;

  // The model's own tensors: what belongs to the optimizer and the averaged weights is left out.
  std::vector<std::pair<std::string, Tensor>> parameters() const;
};
// From a run's folder or a file. Throws Error that names it, also if it is another app's.
Checkpoint open_checkpoint(const std::string& app, const std::string& run_or_file);

bool has_average(const Checkpoint& checkpoint);  // whether it holds averaged weights too

// Throws Error that lists missing, unexpected and mismatched names unless these are the model's tensors.
void check_parameters(const nn::Module& model, const std::vector<std::pair<std::string, Tensor>>& tensors,
                      const std::string& file);
// Copies values by name into the model, after the same check.
void load_parameters(nn::Module& model, const std::vector<std::pair<std::string, Tensor>>& tensors,
                     const std::string& file);
// Those of a checkpoint; with `ema` the averaged ones.
void load_parameters(nn::Module& model, const Checkpoint& checkpoint, bool ema = false);

void save_checkpoint(const std::string& path, const std::string& app, const nlohmann::ordered_json& config,
                     const RunState& state, nn::Module& model, nn::Optimizer& optimizer, const nn::Ema* ema);
// The parameters alone, with the config: a file to give away.
void save_weights(const std::string& path, const std::string& app, const nlohmann::ordered_json& config,
                  const nn::Module& model);
// Restores all of it.
RunState resume(const Checkpoint& checkpoint, nn::Module& model, nn::Optimizer& optimizer, nn::Ema* ema);

}  // namespace pursuit::apps
