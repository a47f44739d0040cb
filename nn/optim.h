#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nn/module.h"

namespace pursuit::nn {

// All parameters of a model moved into one f32 buffer, their gradients into another: optimizers, clipping and
// averaging are single passes over flat memory. The model's tensors become views of `values`.
class FlatParameters {
 public:
  // `decays(name, tensor)`: whether weight decay applies to the parameter.
  FlatParameters(const std::vector<NamedTensor>& parameters,
                 const std::function<bool(const std::string&, const Tensor&)>& decays);

  void zero_grad();
  // Call after backward and before a step: parameters that no gradient reached get zeros.
  void finish_grad();
  double grad_norm() const;  // Euclidean, over all gradients

  // Calls body(offset, count, decays) on ranges that cover the buffer, over the threads.
  void for_each_range(const std::function<void(int64_t, int64_t, bool)>& body) const;

  Tensor values, grads;  // [total]

 private:
  struct Segment {
    NamedTensor parameter;
    int64_t offset, count;
    bool decays;
  };
  std::vector<Segment> segments_;
};

// timm's rule: matrices decay, vectors (biases, norms, scalars), pos_embed and cls_token do not.
bool decays_by_timm(const std::string& name, const Tensor& t);

struct OptimizerConfig {
  enum class Kind { adamw, sgd } kind = Kind::adamw;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double momentum = 0.9;  // sgd
  bool nesterov = true;   // sgd
  double weight_decay = 0.05;
};

// AdamW (Loshchilov & Hutter 2019): p -= lr wd p, then p -= lr mhat / (sqrt(vhat) + eps); or SGD with
// momentum as in PyTorch. State in f32 beside the parameters.
class Optimizer {
 public:
  Optimizer(FlatParameters& parameters, const OptimizerConfig& config);
  // One update with gradients multiplied by grad_scale first (clipping).
  void step(double lr, double grad_scale = 1);

  int64_t steps() const { return steps_; }
  void set_steps(int64_t n) { steps_ = n; }
  // The tensors a checkpoint must hold beside the parameters.
  std::vector<NamedTensor> state();

 private:
  FlatParameters& flat_;
  OptimizerConfig config_;
  Tensor first_, second_;
  int64_t steps_ = 0;
};

// Exponential moving average of the parameters: e <- decay e + (1 - decay) p.
class Ema {
 public:
  Ema(const FlatParameters& parameters, double decay);
  void update();
  void swap();  // exchanges averaged and current values, for an evaluation; call again to go back
  Tensor values;

 private:
  const FlatParameters& flat_;
  double decay_;
};

}  // namespace pursuit::nn
