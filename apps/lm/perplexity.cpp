#include "apps/lm/perplexity.h"

#include <algorithm>
#include <cmath>

#include "apps/common/signals.h"
#include "apps/training/checkpoint.h"
#include "engine/core/error.h"

namespace pursuit::lm {

namespace {

// The sum over a batch of rows [-1, length].
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

double Score::perplexity() const { return std::exp(loss()); }

Score score_blocks(const nn::TransformerLm& model, data::TextBatches& rows, const Tick& tick) {
  Score score;
  data::TextBatch batch;
  for (int64_t b = 0; b < rows.steps() && !apps::stop_requested(); ++b) {
    rows.get(0, b, batch);
    score.nats += nats_of(model, batch, rows.length());
    score.tokens += batch.count;
    if (tick) tick(score.tokens);
  }
  return score;
}

Score score_sliding(const nn::TransformerLm& model, std::span<const int32_t> text, int32_t line_end,
                    int64_t batch_size, const Tick& tick) {
  if (text.empty() || batch_size < 1)
    fail("lm", "got " + std::to_string(text.size()) + " tokens in batches of " + std::to_string(batch_size) +
                   " windows, need at least 1 of each");
  const int64_t size = int64_t(text.size()), length = std::min(model.config().context, size);
  // Window w reads the tokens before w, w + 1, ... and predicts those.
  const auto add_window = [&](int64_t w, data::TextBatch& batch) {
    for (int64_t t = 0; t < length; ++t) {
      batch.ids.push_back(w + t == 0 ? line_end : text[size_t(w + t - 1)]);
      const bool counts = w == 0 || t == length - 1;
      batch.labels.push_back(counts ? text[size_t(w + t)] : -1);
      batch.count += counts;
    }
  };
  Score score;
  const int64_t windows = size - length + 1;
  for (int64_t w = 0; w < windows && !apps::stop_requested(); w += batch_size) {
    data::TextBatch batch;
    for (int64_t i = w; i < std::min(w + batch_size, windows); ++i) add_window(i, batch);
    score.nats += nats_of(model, batch, length);
    score.tokens += batch.count;
    if (tick) tick(score.tokens);
  }
  return score;
}

}  // namespace pursuit::lm
