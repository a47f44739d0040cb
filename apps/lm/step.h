#pragma once
#include "apps/lm/config.h"
#include "apps/training/task.h"
#include "engine/step/transfer.h"
#include "nn/transformer_lm.h"

// What a step of `lm` computes, apart from where its batch comes from.
namespace pursuit::lm {

// Tensors that stay where they are, which batches are sent to.
struct StepInput {
  StepInput(const Config& config, Device device);

  Upload ids, labels;  // i32 [batch, context]
};

nn::Loss loss(const nn::TransformerLm& model, const Config& config, const StepInput& input);

// Rows for the attention's entropy at every evaluation; it changes slowly.
constexpr int64_t inspected_rows = 32;

// The work of training, with an evaluation of a text of so many tokens, and of evaluating a batch, on shapes
// alone, for apps::require_memory.
void train_on_shapes(const Config& config, int64_t evaluated_tokens);
void evaluate_on_shapes(const nn::TransformerLm& model, const Config& config);

}  // namespace pursuit::lm
