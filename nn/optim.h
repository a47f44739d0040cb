#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/choice.h"
#include "engine/step/optim.h"
#include "nn/module.h"

namespace pursuit::nn {

// timm's rule: weight decay applies to matrices, not to vectors (biases, norms, scalars), pos_embed,
// cls_token and cls_emb.
bool decays_by_timm(const std::string& name, const Tensor& t);

// All parameters of a model in one flat f32 buffer and their gradients in another, so that optimizers,
// clipping and averaging are single passes over memory. The model's tensors become views of `values`; its f32
// buffers become views of `buffers`, which only Ema uses.
class FlatParameters {
 public:
  // Whether weight decay applies to a parameter.
  using DecaysBy = std::function<bool(const std::string& name, const Tensor&)>;

  // A model that computes in bf16 gets a bf16 copy of all weights, which updates keep in sync; the f32
  // weights are the ones that are trained and saved.
  explicit FlatParameters(Module& model, const DecaysBy& decays_by = decays_by_timm,
                          DType computes_in = DType::f32)
      : FlatParameters(model.parameters(), decays_by, computes_in, model.buffers()) {}
  FlatParameters(const std::vector<NamedTensor>& parameters, const DecaysBy& decays_by,
                 DType computes_in = DType::f32, const std::vector<NamedTensor>& buffers = {});

  void zero_grad();
  // Completes `grads`: all gradients that arrived, zeros where none did. An optimizer's update calls it
  // if backward ran since the last call; call it yourself to read or change gradients before the
  // update.
  void finish_grad();
  bool finished() const;  // whether no gradient has arrived since
  // Gradient accumulation: zero_sum before the first batch, add_grad after each backward, for all
  // parameters or for first to last - 1. RankGradients::wait finally adds the gradients that lookups keep
  // separate.
  void zero_sum();
  void add_grad() { add_grad(0, size()); }
  void add_grad(size_t first, size_t last);
  // Call after writing to the parameters: updates the bf16 copy.
  void refresh();

  size_t size() const { return parameters_.size(); }
  // Of parameter i, if its lookups are kept separate.
  Lookups* lookups(size_t i) const;
  const Node* leaf(size_t i) const { return parameters_[i].tensor->node().get(); }
  // Offset of parameter i; for i = size(), the end.
  int64_t offset(size_t i) const { return i < size() ? ranges[i].at : values.numel(); }
  bool on_gpu() const { return values.device().is_cuda(); }

  // Views of such a buffer, one per parameter, under their names; below, the same for the model's buffers.
  std::vector<std::pair<std::string, Tensor>> named(const Tensor& buffer) const;
  std::vector<std::pair<std::string, Tensor>> named_buffers(const Tensor& buffer) const;

  Tensor values, grads;           // [total], f32
  Tensor copy;                    // [total], bf16, if the model computes in it
  Tensor buffers;                 // f32, undefined if the model has none
  std::vector<FlatRange> ranges;  // one per parameter

 private:
  int64_t arrivals() const;
  std::vector<FlatPart> parts(size_t first, size_t last) const;  // the gradients that arrived

  std::vector<NamedTensor> parameters_, buffers_;
  int64_t finished_at_ = -1;  // number of arrivals at that time; -1 after zero_grad
};

// The offset of each parameter in a flat buffer, and the end of the last.
std::vector<int64_t> flat_offsets(const std::vector<NamedTensor>& parameters);

struct OptimizerConfig {
  enum class Kind { adamw, sgd } kind = Kind::adamw;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double momentum = 0.9;  // sgd
  bool nesterov = true;   // sgd
  double weight_decay = 0.05;
  double clip_norm = 0;  // maximum norm of the gradients (0: no clipping)

  friend std::vector<Choice<Kind>> choices_of(Kind) {
    return {{"adamw", Kind::adamw}, {"sgd", Kind::sgd, "Nesterov momentum 0.9"}};
  }

  AdamW adamw() const { return {beta1, beta2, eps, weight_decay}; }
  Sgd sgd() const { return {momentum, weight_decay, nesterov}; }
};

// AdamW or SGD (engine/step/optim.h) with f32 state. A step by hand is three calls: optimizer.zero_grad(),
// loss.backward(), optimizer.step(lr).
class Optimizer {
 public:
  explicit Optimizer(FlatParameters& parameters, const OptimizerConfig& config = {});
  void zero_grad() { flat_.zero_grad(); }
  // A step is begin and update. begin writes the step's number and learning rate to device memory, so that a
  // captured update can be replayed in later steps.
  void begin(double lr);
  // `weight` (f32 [] on the parameters' device; undefined: 1): divides gradients that are a weighted sum,
  // before clipping.
  void update(const Tensor& weight = {});
  void step(double lr) {
    begin(lr);
    update();
  }

  int64_t steps() const { return steps_; }
  void set_steps(int64_t n) { steps_ = n; }
  // The optimizer state that a checkpoint must store.
  std::vector<NamedTensor> state();

 private:
  FlatParameters& flat_;
  OptimizerConfig config_;
  Tensor first_, second_, decays_, factor_, step_;  // see FlatUpdate
  int64_t steps_ = 0;
};

// Exponential moving average of the parameters and the model's f32 buffers: e <- decay e + (1 - decay) p, as
// timm's ModelEmaV2. Other buffers (counts) are not averaged.
class Ema {
 public:
  Ema(FlatParameters& parameters, double decay);
  void update();
  void swap();  // exchanges averaged and current values for an evaluation; call again to undo
  std::vector<std::pair<std::string, Tensor>> named() const;  // the averages, by parameter and buffer
  Tensor values, buffers;                                     // as in FlatParameters

 private:
  FlatParameters& flat_;
  double decay_;
};

}  // namespace pursuit::nn
