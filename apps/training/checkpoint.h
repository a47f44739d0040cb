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

// Checkpoints of a run's folder: safetensors that hold the parameters and buffers under their names, the
// averaged weights under the same names behind "ema.", what the optimizer needs, and in the metadata the
// config, where the run stands and checksums (checksums.h).
namespace pursuit::apps {

// With the config and the tensors this is all that going on bit for bit needs.
struct RunState {
  int64_t step = 0, epoch = 0, batch = 0;  // optimizer steps done, those of them in the epoch under way
  int64_t evaluated = 0;                   // the step of the last evaluation
  double best_score = std::numeric_limits<double>::lowest();
  // Of the epoch under way, so that a resumed epoch reports the same mean loss.
  double loss_sum = 0;
  int64_t loss_count = 0;
};
// As an app's config, see apps/run/fields.h.
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

std::string checkpoint_path(const std::string& folder);  // of the last one
std::string previous_path(const std::string& folder);    // of the one before it
std::string best_path(const std::string& folder);        // of the best evaluation's, if the run keeps it
bool holds_run(const std::string& folder);               // any of the three

struct Checkpoint {
  std::string path;
  std::string name;  // of the run's folder or the file, for tables
  nlohmann::ordered_json config;
  RunState state;
  TensorFile file;

  // The model's own tensors: what belongs to the optimizer and the averaged weights is left out.
  std::vector<std::pair<std::string, Tensor>> parameters() const;
};
// From a run's folder or a file. Throws Error that names the file, and the tensor if one is damaged, also if
// it is another app's. If a folder's last checkpoint cannot be read, a line on stderr says so and the one
// before it is opened. Checksums are compared if `verify`; a line on stderr says if a run's file has none.
Checkpoint open_checkpoint(const std::string& app, const std::string& run_or_file, bool verify = true);

bool has_average(const Checkpoint& checkpoint);  // whether it holds averaged weights too

// Throws Error that lists missing, unexpected and mismatched names unless these are the model's tensors.
void check_parameters(const nn::Module& model, const std::vector<std::pair<std::string, Tensor>>& tensors,
                      const std::string& file);
// Copies values by name into the model, after the same check.
void load_parameters(nn::Module& model, const std::vector<std::pair<std::string, Tensor>>& tensors,
                     const std::string& file);
// Those of a checkpoint; with `ema` the averaged ones.
void load_parameters(nn::Module& model, const Checkpoint& checkpoint, bool ema = false);

bool all_finite(const Tensor& t);  // f32 on the CPU, contiguous

// Weights, or what a model makes of its input, are not finite: its training has diverged.
struct NotFinite : Error {
  using Error::Error;
};
// Throws NotFinite that names the tensor, and writes nothing, if a value is not finite. With `old_name` the
// file that was there stays under that name.
void save_checkpoint(const std::string& path, const std::string& app, const nlohmann::ordered_json& config,
                     const RunState& state, nn::Module& model, nn::Optimizer& optimizer, const nn::Ema* ema,
                     const std::string& old_name = "");
// The parameters alone, with the config: a file to give away.
void save_weights(const std::string& path, const std::string& app, const nlohmann::ordered_json& config,
                  const nn::Module& model);
// Restores all of it.
RunState resume(const Checkpoint& checkpoint, nn::Module& model, nn::Optimizer& optimizer, nn::Ema* ema);

}  // namespace pursuit::apps
