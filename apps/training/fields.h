#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "apps/common/range.h"
#include "data/share.h"
#include "engine/dtype.h"
#include "nn/attention.h"
#include "nn/optim.h"
#include "nn/schedule.h"

// The part of a Config that every app has, see apps/common/fields.h: an app's Config derives from these and
// its for_each_field calls theirs.
namespace pursuit::apps {

struct AttentionFields {
  std::string attention = "softmax";
  // Iterated kinds (rpc, svt), see RpcOptions.
  int iterations = 4;
  double lambda = 4;
  std::string threshold = "product", mu_width = "model", dual_sign = "minus";
  bool detach_mu = false, shrink_every_iteration = true;
};

template <class C, class F>
void for_each_attention_field(C& c, const F& f) {
  f("attention", c.attention,
    "Attention kind: softmax, symmetric, rpc, svt, scaled-s, scaled-alpha, clipped, gated, linear");
  f("iterations", c.iterations, "rpc, svt: iterations", Range{1, 1000});
  f("lambda", c.lambda, "rpc: weight of the sparse part", above(0, 1e6));
  f("threshold", c.threshold, "rpc: product (tau = lambda mu, the published code) or quotient (lambda / mu)");
  f("mu-width", c.mu_width, "rpc: model or head, the width in mu = N width / (4 |K|_1)");
  f("dual-sign", c.dual_sign, "rpc: minus (the published code) or plus (the exact minimiser)");
  f("detach-mu", c.detach_mu, "rpc: no gradient through mu");
  f("shrink-every-iteration", c.shrink_every_iteration,
    "rpc: soft threshold in every iteration, not only the last");
}

nn::AttentionConfig attention_config(const AttentionFields& fields);
// "RPC-Attention (4 iterations, block 0)"; `where` names the blocks that iterate.
std::string describe_attention(const AttentionFields& fields, const std::string& where);
bool is_iterated(const AttentionFields& fields);

struct TrainingFields {
  int64_t epochs = 10, steps = 0;  // steps > 0: so many, whatever the epochs
  int64_t batch_size = 128, accumulate = 1, ranks = 1, eval_batch_size = 256;
  std::string optimizer = "adamw", schedule = "cosine";
  double lr = 1e-3, min_lr = 1e-5, warmup_lr = 1e-6, warmup_epochs = 1;
  std::string lr_step = "batch";  // batch, or epoch as some published recipes
  double weight_decay = 0.05, clip_norm = 0, ema = 0;
  std::string eval_weights = "ema";
  std::string dtype = "f32", device = "auto";
  uint64_t seed = 0;
  int threads = 0;
  double checkpoint_seconds = 30;
  int64_t checkpoint_steps = 0;  // 0: by time only
  double eval_every = 1;         // epochs
  bool keep_best = false;
  // Of the training and the evaluation data, filled in when they are opened, see data/fingerprint.h.
  std::string data_fingerprint;
};

template <class C, class F>
void for_each_training_field(C& c, const F& f) {
  f("epochs", c.epochs, "Epochs, unless --steps is given", Range{1, 4194303});
  f("steps", c.steps, "End after this many steps, and the schedule with them (0: after --epochs)", any_count);
  f("batch-size", c.batch_size, "Samples per batch", Range{1, 1 << 24});
  f("accumulate", c.accumulate, "Batches per step, one after the other: their gradients add up",
    Range{1, 65536});
  f("ranks", c.ranks,
    "Processes of this machine that train together, each with batches of its own: one a GPU; on CPUs they "
    "share "
    "the cores",
    Range{1, 65536});
  f("eval-batch-size", c.eval_batch_size, "Samples per batch in evaluation", Range{1, 1 << 24});
  f("optimizer", c.optimizer, "adamw or sgd (Nesterov momentum 0.9)");
  f("schedule", c.schedule, "Learning rate: cosine, polynomial or constant");
  f("lr", c.lr, "Peak learning rate", above(0, 1e6));
  f("min-lr", c.min_lr, "Final learning rate", Range{0, 1e6});
  f("warmup-lr", c.warmup_lr, "Learning rate at the first step", Range{0, 1e6});
  f("warmup-epochs", c.warmup_epochs, "Epochs of linear warm-up", Range{0, 1e6});
  f("lr-step", c.lr_step, "Move the learning rate with every batch or every epoch");
  f("weight-decay", c.weight_decay, "Weight decay of matrices", Range{0, 1e6});
  f("clip-norm", c.clip_norm, "Clip the gradient's norm (0: off)", Range{0, 1e9});
  f("ema", c.ema, "Decay of the averaged weights (0: off)", below(0, 1));
  f("eval-weights", c.eval_weights,
    "Weights that are evaluated and used: ema (the averaged ones, where --ema keeps them) or raw (the last "
    "ones)");
  f("dtype", c.dtype, "f32 or bf16 (weights and optimizer stay f32)");
  f("device", c.device, "auto, cpu, cuda, cuda:1");
  f("seed", c.seed, "Seed of weights, order, augmentation and dropout", any_seed);
  f("threads", c.threads, "CPU threads (0: all)", any_threads);
  f("checkpoint-seconds", c.checkpoint_seconds, "Save at least this often, seconds", Range{0, 1e9});
  f("checkpoint-steps", c.checkpoint_steps, "Save every so many steps too (0: by time)", any_count);
  f("eval-every", c.eval_every, "Evaluate every so many epochs, also parts of one (0: at the end only)",
    Range{0, 1e6});
  f("keep-best", c.keep_best, "Keep the weights of the best evaluation too, as best.safetensors");
  f("data-fingerprint", c.data_fingerprint, "");
}

// What a rank takes of the training batches.
data::Share share(const TrainingFields& fields, int rank);
// The samples of a step: "512 (2 ranks, 4 times 64)".
std::string describe_batch(const TrainingFields& fields);

// The weights that the run's evaluations are of, and that commands use unless told otherwise: "ema" or "raw".
std::string evaluated_weights(const TrainingFields& fields);

// The data-fingerprint of a config: those of the training and the evaluation data. A run that goes on has
// `recorded` one; throws Error that names the data if it is another.
std::string same_data(const std::string& recorded, const std::pair<std::string, std::string>& found,
                      const std::string& data);

nn::OptimizerConfig optimizer_config(const TrainingFields& fields);
nn::Schedule schedule(const TrainingFields& fields);  // in epochs

// Checks values that no option checks by itself; throw Error that names the option and starts with `app`.
void validate(const char* app, const AttentionFields& fields);
void validate(const char* app, const TrainingFields& fields);

}  // namespace pursuit::apps
