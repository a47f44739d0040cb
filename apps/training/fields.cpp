#include "apps/training/fields.h"

#include <fmt/format.h>

#include "apps/common/checks.h"

namespace pursuit::apps {

nn::AttentionConfig attention_config(const AttentionFields& f) {
  nn::AttentionConfig attention;
  attention.kind = nn::attention_kind(f.attention);
  RpcOptions& rpc = attention.rpc;
  rpc.iterations = f.iterations;
  rpc.lambda = f.lambda;
  rpc.threshold = f.threshold == "product" ? RpcOptions::Threshold::product : RpcOptions::Threshold::quotient;
  rpc.mu_width = f.mu_width == "model" ? RpcOptions::MuWidth::model : RpcOptions::MuWidth::head;
  rpc.dual_sign = f.dual_sign == "minus" ? RpcOptions::DualSign::minus : RpcOptions::DualSign::plus;
  rpc.detach_mu = f.detach_mu;
  rpc.shrink_every_iteration = f.shrink_every_iteration;
  return attention;
}

bool is_iterated(const AttentionFields& f) { return f.attention == "rpc" || f.attention == "svt"; }

std::string describe_attention(const AttentionFields& f, const std::string& where) {
  const std::string iterated =
      fmt::format(" ({} iteration{}, {})", f.iterations, f.iterations == 1 ? "" : "s", where);
  if (f.attention == "rpc") return "RPC-Attention" + iterated;
  if (f.attention == "svt") return "RPC-Attention with singular value thresholding" + iterated;
  if (f.attention == "scaled-s") return "Scaled Attention (S)";
  if (f.attention == "scaled-alpha") return "Scaled Attention (alpha)";
  if (f.attention == "clipped") return "clipped softmax attention";
  return f.attention + " attention";
}

data::Share share(const TrainingFields& f, int rank) {
  return {rank * f.accumulate, f.accumulate, f.ranks * f.accumulate};
}

std::string describe_batch(const TrainingFields& f) {
  std::string parts;
  if (f.ranks > 1) parts = fmt::format("{} ranks, ", f.ranks);
  if (f.accumulate > 1) parts += fmt::format("{} times ", f.accumulate);
  const int64_t all = f.ranks * f.accumulate * f.batch_size;
  return parts.empty() ? std::to_string(all) : fmt::format("{} ({}{})", all, parts, f.batch_size);
}

std::string evaluated_weights(const TrainingFields& f) {
  return f.ema > 0 && f.eval_weights == "ema" ? "ema" : "raw";
}

std::string same_data(const std::string& recorded, const std::pair<std::string, std::string>& found,
                      const std::string& data) {
  const std::string now = found.first + " " + found.second;
  if (recorded.empty() || recorded == now) return now;
  const bool training = !recorded.starts_with(found.first + " ");
  fail("train",
       fmt::format("{}: not the {} data that the run was started with: names, sizes, classes or order "
                   "of the files differ, or the version that started it told data apart in another way; give "
                   "that --data, go on with that version ('made-by' in config.json), or begin another run",
                   data.empty() ? "the built-in data" : data, training ? "training" : "evaluation"));
}

nn::OptimizerConfig optimizer_config(const TrainingFields& f) {
  nn::OptimizerConfig o;
  o.kind = f.optimizer == "sgd" ? nn::OptimizerConfig::Kind::sgd : nn::OptimizerConfig::Kind::adamw;
  o.weight_decay = f.weight_decay;
  o.clip_norm = f.clip_norm;
  return o;
}

nn::Schedule schedule(const TrainingFields& f) {
  nn::Schedule s;
  s.kind = f.schedule == "cosine"       ? nn::Schedule::Kind::cosine
           : f.schedule == "polynomial" ? nn::Schedule::Kind::polynomial
                                        : nn::Schedule::Kind::constant;
  s.lr = f.lr;
  s.min_lr = f.min_lr;
  s.warmup_lr = f.warmup_lr;
  s.warmup = f.warmup_epochs;
  s.total = double(f.epochs);
  return s;
}

void validate(const char* app, const AttentionFields& f) {
  check_word(app, "attention", f.attention, nn::attention_kinds());
  check_word(app, "threshold", f.threshold, {"product", "quotient"});
  check_word(app, "mu-width", f.mu_width, {"model", "head"});
  check_word(app, "dual-sign", f.dual_sign, {"minus", "plus"});
}

void validate(const char* app, const TrainingFields& f) {
  check_word(app, "optimizer", f.optimizer, {"adamw", "sgd"});
  check_word(app, "schedule", f.schedule, {"cosine", "polynomial", "constant"});
  check_word(app, "lr-step", f.lr_step, {"batch", "epoch"});
  check_word(app, "eval-weights", f.eval_weights, {"ema", "raw"});
  check_word(app, "dtype", f.dtype, {"f32", "bf16"});
  const std::string& d = f.device;
  const bool numbered = d.size() == 6 && d.starts_with("cuda:") && d[5] >= '0' && d[5] <= '9';
  check_range(app, "device", d, d == "auto" || d == "cpu" || d == "cuda" || numbered,
              "auto, cpu, cuda, cuda:0, cuda:1 ...");
}

}  // namespace pursuit::apps
