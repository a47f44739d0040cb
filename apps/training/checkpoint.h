#pragma once
#include <concepts>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "apps/run/json.h"
#include "engine/base/error.h"
#include "engine/files/safetensors.h"
#include "nn/module.h"
#include "nn/optim.h"

// Checkpoints in a run's folder. They are safetensors files with the parameters and buffers under their
// names, the averaged weights under the same names with the prefix "ema.", and the optimizer's state. The
// metadata holds the config, the run's progress and checksums (checksums.h).
namespace pursuit::apps {

// The run's progress. Together with the config and the tensors it suffices to resume bit for bit.
struct RunState {
  int64_t step = 0, epoch = 0, batch = 0;  // finished steps, epochs, and steps of the current epoch
  int64_t evaluated = 0;                   // step of the last evaluation
  double best_score = std::numeric_limits<double>::lowest();
  // Of the current epoch, so that a resumed epoch reports the same mean loss.
  double loss_sum = 0;
  int64_t loss_count = 0;
};
// The fields of the "progress" JSON, see apps/run/fields.h.
template <class State, class F>
requires std::same_as<std::remove_const_t<State>, RunState>
void for_each_field(State& s, const F& f) {
  f("step", s.step, "");
  f("epoch", s.epoch, "");
  f("batch", s.batch, "");
  f("evaluated", s.evaluated, "");
  f("best_score", s.best_score, "");
  f("loss_sum", s.loss_sum, "");
  f("loss_count", s.loss_count, "");
}

std::string checkpoint_path(const std::string& folder);  // the newest checkpoint
std::string previous_path(const std::string& folder);    // the one before
std::string best_path(const std::string& folder);        // the best evaluation's, written under --keep-best
bool holds_run(const std::string& folder);               // true if any of the three exists

struct Checkpoint {
  std::string path;
  std::string name;  // name of the run's folder or of the file, for tables
  nlohmann::ordered_json config;
  RunState state;
  TensorFile file;

  // The model's parameters and buffers, without optimizer state and averaged weights.
  std::vector<std::pair<std::string, Tensor>> parameters() const;
  // The same tensors with averaged values. Integer buffers (counts) have no average and are returned
  // unchanged. Throws Error if the file is of an earlier version, whose averages need the model to be read.
  std::vector<std::pair<std::string, Tensor>> averages() const;
};
// Opens the checkpoint of a run's folder, or a file. If a folder's newest checkpoint cannot be read, prints a
// line to stderr and opens the one before. With `verify` compares checksums; prints a line to stderr if a
// run's file has none. Throws Error that names the file and a damaged tensor, or if another app wrote it.
Checkpoint open_checkpoint(const std::string& app, const std::string& run_or_file, bool verify = true);

bool has_average(const Checkpoint& checkpoint);  // true if it holds averaged weights

// Throws Error that lists missing, unexpected and mismatched names if these are not the model's tensors.
void check_parameters(const nn::Module& model, const std::vector<std::pair<std::string, Tensor>>& tensors,
                      const std::string& file);
// The same check, then copies the values by name into the model.
void load_parameters(nn::Module& model, const std::vector<std::pair<std::string, Tensor>>& tensors,
                     const std::string& file);
// Loads a checkpoint's parameters; with `ema` its averaged ones.
void load_parameters(nn::Module& model, const Checkpoint& checkpoint, bool ema = false);

bool all_finite(const Tensor& t);  // `t`: f32 on the CPU, contiguous

// Weights or outputs of a model are not finite: training has diverged.
struct NotFinite : Error {
  using Error::Error;
};
// Writes a checkpoint. With `old_name` an existing file is renamed to it first. Throws NotFinite that names
// the tensor if a value is not finite; then nothing is written.
void save_checkpoint(const std::string& path, const std::string& app, const nlohmann::ordered_json& config,
                     const RunState& state, nn::Module& model, nn::Optimizer& optimizer, const nn::Ema* ema,
                     const std::string& old_name = "");
// Writes only parameters and config, for distribution.
void save_weights(const std::string& path, const std::string& app, const nlohmann::ordered_json& config,
                  const nn::Module& model);
// Restores model, optimizer and averaged weights; returns the progress.
RunState resume(const Checkpoint& checkpoint, nn::Module& model, nn::Optimizer& optimizer, nn::Ema* ema);

}  // namespace pursuit::apps
