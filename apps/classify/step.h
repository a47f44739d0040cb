#pragma once
#include <optional>

#include "apps/classify/config.h"
#include "apps/training/task.h"
#include "engine/step/transfer.h"
#include "nn/vit.h"

// What a step of `classify` computes, apart from where its batch comes from.
namespace pursuit::classify {

// Tensors that stay where they are, which batches are sent to.
struct StepInput {
  StepInput(const Config& config, Device device);

  Upload images;                 // u8 [B, channels, size, size]
  std::optional<Upload> erased;  // i32 [B, 4]: x, y, width, height
  std::optional<Upload> mix;     // f32 [B, 6], see data::mix_rows
  Upload targets;                // i32 [B], or f32 [B, classes] where pictures are mixed
};

nn::Loss loss(const nn::VisionTransformer& model, const Config& config, const StepInput& input);

// The work of training, and of evaluating a batch, on shapes alone, for apps::require_memory; with
// `gradients` of the pictures, as attacks take them.
void train_on_shapes(const Config& config);
void evaluate_on_shapes(const nn::VisionTransformer& model, const Config& config, bool gradients);

}  // namespace pursuit::classify
