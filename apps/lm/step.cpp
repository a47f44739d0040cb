#include "apps/lm/step.h"

#include <algorithm>

#include "apps/training/step_memory.h"
#include "engine/ops.h"

namespace pursuit::lm {

StepInput::StepInput(const Config& c, Device device)
    : ids({c.batch_size, c.context}, DType::i32, device),
      labels({c.batch_size, c.context}, DType::i32, device) {}

nn::Loss loss(const nn::TransformerLm& model, const Config& c, const StepInput& in) {
  const Tensor cross_entropy = model.loss(in.ids.tensor(), in.labels.tensor());
  if (c.locater == 0) return {cross_entropy};
  Tensor penalty;
  const nn::LocaterOptions options = locater_options(c);
  for (int layer = 0; layer < int(c.depth); ++layer) {
    const nn::Attention& attention = model.attention(layer);
    const Tensor one = nn::locater(attention.query_weights(), attention.key_weights(), options);
    penalty = penalty.defined() ? penalty + one : one;
  }
  return {cross_entropy + c.locater * penalty, cross_entropy};
}

void train_on_shapes(const Config& c, int64_t evaluated_tokens) {
  const Device device = device_from_name(c.device);
  nn::TransformerLm model(model_config(c));
  model.to(device);
  model.set_dtype(c.dtype);
  model.keep_lookups_apart(c.batch_size * c.context, c.batch_size * c.context, c.accumulate, c.ranks);
  const StepInput input(c, device);
  model.set_step(0, 0);
  apps::train_on_shapes(
      model, c, [&] { return loss(model, c, input); },
      [&] {
        evaluate_on_shapes(model, c);
        const int64_t windows = std::min(inspected_rows, (evaluated_tokens + c.context - 1) / c.context);
        model.attention_entropy(empty({windows, c.context}, DType::i32, device));
      });
}

void evaluate_on_shapes(const nn::TransformerLm& model, const Config& c) {
  const Device device = device_from_name(c.device);
  const Tensor ids = empty({c.eval_batch_size, c.context}, DType::i32, device);
  model.log_prob_of(ids, ids);
}

}  // namespace pursuit::lm
