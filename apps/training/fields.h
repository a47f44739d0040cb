#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/run/json.h"
#include "apps/run/range.h"
#include "data/share.h"
#include "engine/core/dtype.h"
#include "nn/attention/attention.h"
#include "nn/optim.h"
#include "nn/quantization/config.h"
#include "nn/schedule.h"

// The fields that every app's Config has (see apps/run/fields.h). An app's Config derives from these structs
// and its for_each_field calls theirs.
namespace CLI {
class App;
}

namespace pursuit::apps {

struct AttentionFields {
  std::string attention = "softmax", layers = "auto", other_attention = "auto";
  nn::KindOptions kind_options = nn::default_kind_options();  // of all kinds
  bool causal = false;                                        // set by the app's Config

  // Options of older versions that `layers` replaced, in config.json and as options hidden from --help. Image
  // models had --layer, the block that iterates (-1: all); language models had --iterated-layers, how many of
  // the first blocks iterate.
  void read_old(const nlohmann::ordered_json& config);
  void add_old(CLI::App& app);
};

std::string kinds_help(bool causal);  // for example "Attention kind: clipped, ..."
// The options of kinds. Of a causal model's, the help names only the kinds that may be causal, and is empty if
// no such kind has the option.
const std::vector<nn::KindOption>& options_of_kinds(bool causal);

template <class C, class F> void for_each_attention_field(C& c, const F& f) {
  static const std::string kinds = kinds_help(c.causal);
  f("attention", c.attention, kinds.c_str());
  f("layers", c.layers,
    "Blocks with this kind: all, none, or numbers and ranges such as 0,3-5 (auto: the first block if the "
    "kind iterates, else all)");
  f("other-attention", c.other_attention,
    "Kind of the other blocks (auto: symmetric if keys serve as queries, else softmax)");
  for (const nn::KindOption& option : options_of_kinds(c.causal))
    std::visit([&](auto& value) { f(option.name.c_str(), value, option.help.c_str(), option.range); },
               c.kind_options.at(option.name));
}

nn::AttentionConfig attention_config(const AttentionFields& fields);
// The options of attention kinds that none of the `depth` blocks runs: they change nothing.
std::vector<nn::KindOption> unused_options(const AttentionFields& fields, int64_t depth);
// For example "RPC-Attention (4 iterations, block 0)" for a model of `depth` blocks. `more` is inserted after
// the blocks of a kind that iterates.
std::string describe_attention(const AttentionFields& fields, int64_t depth, const std::string& more = "");

// Of a run that `quantize` has made, in its config; no options of `train`.
struct QuantizedFields {
  int64_t weight_bits = 0, activation_bits = 0;  // 0: not quantised
  bool float_head = false;
  std::string quantized_by;  // options of `quantize`, and the run that it read

  bool is_quantized() const { return weight_bits > 0; }
};

template <class C, class F> void for_each_quantized_field(C& c, const F& f) {
  f("weight-bits", c.weight_bits, "", Range{0, 8});
  f("activation-bits", c.activation_bits, "", Range{0, 8});
  f("float-head", c.float_head, "");
  f("quantized-by", c.quantized_by, "");
}

std::optional<nn::QuantizationConfig> quantization_config(const QuantizedFields& fields);
// Throws Error that names the field: both numbers of bits are 0, or 2 to 8 in a model that computes in f32.
void validate(const char* app, const QuantizedFields& fields, DType dtype);

enum class LrStep { batch, epoch };
inline std::vector<Choice<LrStep>> choices_of(LrStep) {
  return {{"batch", LrStep::batch}, {"epoch", LrStep::epoch, "as in some published recipes"}};
}

enum class EvalWeights { ema, raw };
inline std::vector<Choice<EvalWeights>> choices_of(EvalWeights) {
  return {{"ema", EvalWeights::ema, "averaged, if --ema is on"}, {"raw", EvalWeights::raw, "as trained"}};
}

constexpr const char* device_help = "Device: auto, cpu, cuda, cuda:1 ...";

struct TrainingFields {
  int64_t epochs = 10, steps = 0;  // steps > 0 overrides epochs
  int64_t batch_size = 128, accumulate = 1, ranks = 1, eval_batch_size = 256;
  nn::OptimizerConfig::Kind optimizer = nn::OptimizerConfig::Kind::adamw;
  nn::Schedule::Kind schedule = nn::Schedule::Kind::cosine;
  double lr = 1e-3, min_lr = 1e-5, warmup_lr = 1e-6, warmup_epochs = 1;
  LrStep lr_step = LrStep::batch;
  double weight_decay = 0.05, clip_norm = 0, ema = 0;
  EvalWeights eval_weights = EvalWeights::ema;
  DType dtype = DType::f32;
  std::string device = "auto";
  uint64_t seed = 0;
  int threads = 0;
  double checkpoint_seconds = 30;
  int64_t checkpoint_steps = 0;  // 0: by time only
  double eval_every = 1;         // epochs
  double inspect_every = 0;      // epochs
  bool keep_best = false;
  // Fingerprints of training and evaluation data (data/fingerprint.h), filled in when they are opened.
  std::string data_fingerprint;
};

template <class C, class F> void for_each_training_field(C& c, const F& f) {
  f("epochs", c.epochs, "Epochs, unless --steps is given", Range{1, 4194303});
  f("steps", c.steps, "Number of steps of training and schedule (0: by --epochs)", any_count);
  f("batch-size", c.batch_size, "Samples per batch", Range{1, 1 << 24});
  f("accumulate", c.accumulate, "Gradient accumulation: batches per step", Range{1, 65536});
  f("ranks", c.ranks,
    "Data-parallel processes on this machine, each with its own batches: one per GPU; on CPUs they share the "
    "cores",
    Range{1, 65536});
  f("eval-batch-size", c.eval_batch_size, "Samples per batch in evaluation", Range{1, 1 << 24});
  f("optimizer", c.optimizer, "Optimizer");
  f("schedule", c.schedule, "Learning rate after the warm-up");
  f("lr", c.lr, "Peak learning rate", above(0, 1e6));
  f("min-lr", c.min_lr, "Final learning rate", Range{0, 1e6});
  f("warmup-lr", c.warmup_lr, "Learning rate at the first step", Range{0, 1e6});
  f("warmup-epochs", c.warmup_epochs, "Epochs of linear warm-up", Range{0, 1e6});
  f("lr-step", c.lr_step, "Step of the learning rate");
  f("weight-decay", c.weight_decay, "Weight decay of matrices", Range{0, 1e6});
  f("clip-norm", c.clip_norm, "Clip the gradient's norm (0: off)", Range{0, 1e9});
  f("ema", c.ema, "Decay of the averaged weights (0: no averaging)", below(0, 1));
  f("eval-weights", c.eval_weights, "Weights that are evaluated and used");
  f("dtype", c.dtype, "Data type of the model's computations; weights and optimizer stay f32");
  f("device", c.device, device_help);
  f("seed", c.seed, "Seed of weights, order, augmentation and dropout", any_seed);
  f("threads", c.threads, "CPU threads (0: all)", any_threads);
  f("checkpoint-seconds", c.checkpoint_seconds, "Save a checkpoint at least every so many seconds",
    Range{0, 1e9});
  f("checkpoint-steps", c.checkpoint_steps, "Also save a checkpoint every so many steps (0: by time only)",
    any_count);
  f("eval-every", c.eval_every, "Evaluate every so many epochs; fractions are allowed (0: at the end only)",
    Range{0, 1e6});
  f("inspect-every", c.inspect_every,
    "Measure the attention as `inspect` does on a few samples every so many epochs, the first before "
    "training (0: never); training stays the same bit for bit",
    Range{0, 1e6});
  f("keep-best", c.keep_best, "Also keep the weights of the best evaluation, as best.safetensors");
  f("data-fingerprint", c.data_fingerprint, "");
}

// A rank's share of the training batches.
data::Share share(const TrainingFields& fields, int rank);
// The samples of a step, for example "512 (2 ranks, 4 times 64)".
std::string describe_batch(const TrainingFields& fields);

// The weights that evaluations and other commands use by default: "ema" or "raw".
std::string evaluated_weights(const TrainingFields& fields);

// The metric of metrics.jsonl by which a study chooses a setting, measured on validation data.
struct ValidationScore {
  std::string metric;
  bool lowest = false;               // the lowest value is the best
  std::optional<double> value = {};  // of a run
};

// Returns the config's data-fingerprint: those of training and evaluation data, joined. A resumed run has
// `recorded` one; throws Error that names the data if it has changed.
std::string same_data(const std::string& recorded, const std::pair<std::string, std::string>& found,
                      const std::string& data);

nn::OptimizerConfig optimizer_config(const TrainingFields& fields);
nn::Schedule schedule(const TrainingFields& fields);  // in epochs

// Check options against each other. Throw Error that starts with `app` and names the option.
void validate(const char* app, const AttentionFields& fields, int64_t depth);
void validate(const char* app, const TrainingFields& fields);

}  // namespace pursuit::apps
