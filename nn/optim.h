#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/choice.h"
#include "engine/step/optim.h"
#include "nn/module.h"

namespace pursuit::nn {

// timm's rule: matrices decay, vectors (biases, norms, scalars), pos_embed, cls_token and
// cls_emb do not.
bool decays_by_timm(const std::string& name, const Tensor& t);

// All parameters of a model moved into one f32 buffer, their gradients into another: optimizers, clipping and
// averaging are single passes over flat memory. The model's tensors become views of `values`; its f32 buffers
// become views of `buffers`, which only averaging passes over.
class FlatParameters {
 public:
  // Whether weight decay applies to a parameter.
  using DecaysBy = std::function<bool(const std::string& name, const Tensor&)>;

  // A model that computes in bf16 gets a bf16 copy of all weights that updates write along; f32 stays what is
  // trained and saved.
  explicit FlatParameters(Module& model, const DecaysBy& decays_by = decays_by_timm,
                          DType computes_in = DType::f32)
      : FlatParameters(model.parameters(), decays_by, computes_in, model.buffers()) {}
  FlatParameters(const std::vector<NamedTensor>& parameters, const DecaysBy& decays_by,
                 DType computes_in = DType::f32, const std::vector<NamedTensor>& buffers = {});

  void zero_grad();
  // After it all gradients that arrived are in `grads`, zeros where none did. An optimizer's update does it
  // itself where backward ran since the last time; call it to look at the gradients, or to change them,
  // first.
  void finish_grad();
  bool finished() const;  // whether no gradient has arrived since
  // For the sum of several batches' gradients: zero_sum before the first, add_grad after each backward, or by
  // parts, of parameters first to last - 1; and what lookups keep apart is added in the end, by
  // RankGradients::wait.
  void zero_sum();
  void add_grad() { add_grad(0, size()); }
  void add_grad(size_t first, size_t last);
  // Call after writing to the parameters: makes the copy equal to them again.
  void refresh();

  size_t size() const { return parameters_.size(); }
  // Of parameter i, if they are kept apart.
  Lookups* lookups(size_t i) const;
  const Node* leaf(size_t i) const { return parameters_[i].tensor->node().get(); }
  // Where parameter i begins; of size(), the end.
  int64_t offset(size_t i) const { return i < size() ? ranges[i].at : values.numel(); }
  bool on_gpu() const { return values.device().is_cuda(); }

  // The parameters' parts of such a buffer, views under their names; those of the model's own buffers.
  std::vector<std::pair<std::string, Tensor>> named(const Tensor& buffer) const;
  std::vector<std::pair<std::string, Tensor>> named_buffers(const Tensor& buffer) const;

  Tensor values, grads;           // [total], f32
  Tensor copy;                    // [total], bf16, if the model computes in it
  Tensor buffers;                 // f32, undefined where the model has none
  std::vector<FlatRange> ranges;  // of the parameters

 private:
  int64_t arrivals() const;
  std::vector<FlatPart> parts(size_t first, size_t last) const;  // the gradients that arrived

  std::vector<NamedTensor> parameters_, buffers_;
  int64_t finished_at_ = -1;  // arrivals by then; -1 after zero_grad
};

// Where each parameter begins in a flat buffer, and the end of the last.
std::vector<int64_t> flat_offsets(const std::vector<NamedTensor>& parameters);

struct OptimizerConfig {
  enum class Kind { adamw, sgd } kind = Kind::adamw;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double momentum = 0.9;  // sgd
  bool nesterov = true;   // sgd
  double weight_decay = 0.05;
  double clip_norm = 0;  // gradients of a larger norm are scaled down to it (0: never)

  friend std::vector<Choice<Kind>> choices_of(Kind) {
    return {{"adamw", Kind::adamw}, {"sgd", Kind::sgd, "Nesterov momentum 0.9"}};
  }

  AdamW adamw() const { return {beta1, beta2, eps, weight_decay}; }
  Sgd sgd() const { return {momentum, weight_decay, nesterov}; }
};

// adamw or sgd of engine/step/optim.h. State in f32 beside the parameters. By hand a step is three calls:
// optimizer.zero_grad(), loss.backward(), optimizer.step(lr).
class Optimizer {
 public:
  explicit Optimizer(FlatParameters& parameters, const OptimizerConfig& config = {});
  void zero_grad() { flat_.zero_grad(); }
  // One step is begin and update. begin leaves the step's number and learning rate in the device's memory, so
  // that an update that was recorded can be replayed in later steps.
  void begin(double lr);
  // `weight`, f32 [] beside the parameters, of gradients that are a weighted sum: they are divided by it, in
  // front of the clipping. Undefined: 1.
  void update(const Tensor& weight = {});
  void step(double lr) {
    begin(lr);
    update();
  }

  int64_t steps() const { return steps_; }
  void set_steps(int64_t n) { steps_ = n; }
  // The tensors a checkpoint must hold beside the parameters.
  std::vector<NamedTensor> state();

 private:
  FlatParameters& flat_;
  OptimizerConfig config_;
  Tensor first_, second_, decays_, factor_, step_;  // see FlatUpdate
  int64_t steps_ = 0;
};

// Exponential moving average of the parameters and of the model's f32 buffers: e <- decay e + (1 - decay) p,
// as timm's ModelEmaV2. Other buffers (counts) are not averaged.
class Ema {
 public:
  Ema(FlatParameters& parameters, double decay);
  void update();
  void swap();  // exchanges averaged and current values, for an evaluation; call again to go back
  std::vector<std::pair<std::string, Tensor>> named() const;  // the averages, by parameter and buffer
  Tensor values, buffers;                                     // as FlatParameters'

 private:
  FlatParameters& flat_;
  double decay_;
};

}  // namespace pursuit::nn
