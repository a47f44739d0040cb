#pragma once
#include <functional>
#include <span>

#include "apps/lm/config.h"
#include "apps/terminal/progress.h"
#include "apps/training/task.h"
#include "data/text/batches.h"
#include "engine/step/transfer.h"
#include "nn/transformer_lm.h"

// What is computed of batches of text: the loss of a step, and perplexities.
namespace pursuit::lm {

// Tensors that stay where they are, which batches are sent to.
struct StepInput {
  StepInput(const Config& config, Device device);

  Upload ids, labels;  // i64 [batch, context]
};

nn::Loss loss(const nn::TransformerLm& model, const Config& config, const StepInput& input);

// Rows for the attention's entropy at every evaluation; it changes slowly.
constexpr int64_t inspected_rows = 32;

// -log p in nats, summed over the tokens that were predicted.
struct Totals {
  double nats = 0;
  int64_t tokens = 0;
  double loss() const { return nats / double(tokens); }  // mean cross-entropy
  double perplexity() const;
};

// Over the rows of a text, each read without what stands before it. Stops early, with what it has, when a
// stop was requested.
Totals evaluate_blocks(const nn::TransformerLm& model, data::TextBatches& rows, const apps::Tick& tick = {});

// By a window of `context` tokens that moves on by one: the first window predicts all its tokens, every later
// one only its last, so that every token but the first ones has all the context the model can take (Teo &
// Nguyen 2024, A.4). The text begins after an end of line. `batch_size` windows are computed at a time.
Totals evaluate_sliding(const nn::TransformerLm& model, std::span<const int32_t> text, int64_t line_end,
                        int64_t batch_size, const apps::Tick& tick = {});

// The work of training, with an evaluation of a text of so many tokens, and of evaluating a batch, on shapes
// alone, for apps::require_memory.
void train_on_shapes(const Config& config, int64_t evaluated_tokens);
void evaluate_on_shapes(const nn::TransformerLm& model, const Config& config);

}  // namespace pursuit::lm
