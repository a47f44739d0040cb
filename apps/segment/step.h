#pragma once
#include "apps/segment/config.h"
#include "apps/training/task.h"
#include "engine/step/transfer.h"
#include "nn/segmenter.h"

// What a step of `segment` computes, apart from where its batch comes from.
namespace pursuit::segment {

// Tensors that stay where they are, which batches are sent to.
struct StepInput {
  StepInput(const Config& config, Device device);

  Upload images;  // u8 [B, 3, height, width]
  Upload labels;  // i32 [B, height, width]
};

nn::Loss loss(const nn::Segmenter& model, const Config& config, const StepInput& input);

// The work of training, with an evaluation of a picture of this size, on shapes alone, for
// apps::require_memory.
void train_on_shapes(const Config& config, int64_t height, int64_t width);

}  // namespace pursuit::segment
