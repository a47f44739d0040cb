#include "apps/lm/pipeline.h"

#include <algorithm>
#include <cmath>

#include "apps/terminal/signals.h"
#include "apps/training/checkpoint.h"
#include "apps/training/step_memory.h"
#include "engine/base/error.h"
#include "engine/ops.h"

namespace pursuit::lm {

namespace {

// The sum of -log p over a batch of rows [-1, length].
double nats_of(const nn::TransformerLm& model, const data::TextBatch& batch, int64_t length) {
  const Device device = model.embed_weight.device();
  const int64_t rows = int64_t(batch.ids.size()) / length;
  const Tensor log_prob = model.log_prob_of(from_vector(batch.ids, {rows, length}, device),
                                            from_vector(batch.labels, {rows, length}, device));
  double nats = 0;
  for (const double value : log_prob.to_vector()) nats -= value;
  if (!std::isfinite(nats))
    throw apps::NotFinite("the model's probabilities are not finite: its training has diverged");
  return nats;
}

}  // namespace

StepInput::StepInput(const Config& c, Device device)
    : ids({c.batch_size, c.context}, DType::i64, device),
      labels({c.batch_size, c.context}, DType::i64, device) {}

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

double Totals::perplexity() const { return std::exp(loss()); }

Totals evaluate_blocks(const nn::TransformerLm& model, data::TextBatches& rows, const apps::Tick& tick) {
  Totals totals;
  data::TextBatch batch;
  for (int64_t b = 0; b < rows.steps() && !apps::stop_requested(); ++b) {
    rows.get(0, b, batch);
    totals.nats += nats_of(model, batch, rows.length());
    totals.tokens += batch.count;
    if (tick) tick(totals.tokens);
  }
  return totals;
}

Totals evaluate_sliding(const nn::TransformerLm& model, std::span<const int32_t> text, int64_t line_end,
                        int64_t batch_size, const apps::Tick& tick) {
  if (text.empty() || batch_size < 1)
    fail("lm", "got " + std::to_string(text.size()) + " tokens in batches of " + std::to_string(batch_size) +
                   " windows, need at least 1 of each");
  const int64_t size = int64_t(text.size()), length = std::min(model.config().context, size);
  // Window w predicts tokens w, w + 1, ..., w + length - 1.
  const auto add_window = [&](int64_t w, data::TextBatch& batch) {
    for (int64_t t = 0; t < length; ++t) {
      batch.ids.push_back(w + t == 0 ? line_end : text[size_t(w + t - 1)]);
      const bool counts = w == 0 || t == length - 1;
      batch.labels.push_back(counts ? text[size_t(w + t)] : -1);
      batch.count += counts;
    }
  };
  Totals totals;
  const int64_t windows = size - length + 1;
  for (int64_t w = 0; w < windows && !apps::stop_requested(); w += batch_size) {
    data::TextBatch batch;
    for (int64_t i = w; i < std::min(w + batch_size, windows); ++i) add_window(i, batch);
    totals.nats += nats_of(model, batch, length);
    totals.tokens += batch.count;
    if (tick) tick(totals.tokens);
  }
  return totals;
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
        model.attention_entropy(empty({windows, c.context}, DType::i64, device));
      });
}

void evaluate_on_shapes(const nn::TransformerLm& model, const Config& c) {
  const Device device = device_from_name(c.device);
  const Tensor ids = empty({c.eval_batch_size, c.context}, DType::i64, device);
  model.log_prob_of(ids, ids);
}

}  // namespace pursuit::lm
