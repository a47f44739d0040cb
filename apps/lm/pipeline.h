#pragma once
#include <functional>
#include <span>

#include "apps/lm/config.h"
#include "apps/terminal/progress.h"
#include "apps/training/task.h"
#include "data/text/batches.h"
#include "engine/step/transfer.h"
#include "nn/transformer_lm.h"

namespace pursuit::lm {

// The input tensors of all steps; each batch is copied into them.
struct StepInput {
  StepInput(const Config& config, Device device);

  Upload ids, labels;  // i64 [batch, context]
};

nn::Loss loss(const nn::TransformerLm& model, const Config& config, const StepInput& input);

// Rows over which an evaluation in training averages the attention's entropy.
constexpr int64_t inspected_rows = 32;

struct Totals {
  double nats = 0;  // -log p summed over the predicted tokens
  int64_t tokens = 0;
  double loss() const { return nats / double(tokens); }  // mean cross-entropy
  double perplexity() const;
};

// Scores the rows of a text independently: no row has context from another. If a stop was requested, returns
// early with the totals so far.
Totals evaluate_blocks(const nn::TransformerLm& model, data::TextBatches& rows, const apps::Tick& tick = {});

// Scores a text with a sliding window of `context` tokens and stride 1 (Teo & Nguyen 2024, A.4). The first
// window predicts all its tokens, every later one only its last, so that later tokens have the longest
// context. The input before the first token is `line_end`. A batch holds `batch_size` windows. Throws Error
// if the text is empty.
Totals evaluate_sliding(const nn::TransformerLm& model, std::span<const int32_t> text, int64_t line_end,
                        int64_t batch_size, const apps::Tick& tick = {});

// Run a training step with an evaluation of so many tokens, or the evaluation of one batch, on shapes alone,
// for apps::require_memory.
void train_on_shapes(const Config& config, int64_t evaluated_tokens);
void evaluate_on_shapes(const nn::TransformerLm& model, const Config& config);

}  // namespace pursuit::lm
