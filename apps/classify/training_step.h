#pragma once
#include <memory>
#include <optional>

#include "apps/classify/config.h"
#include "data/loader.h"
#include "engine/graph.h"
#include "engine/transfer.h"
#include "nn/optim.h"
#include "nn/vit.h"

namespace pursuit::classify {

// From a batch to the updated weights, on the device where the weights are. On a GPU the first step runs
// operator by operator, the second is recorded as a graph, which it and all later ones replay with the same
// result; the host only starts them and waits in loss().
class TrainingStep {
 public:
  // `ema` may be null; `record` false runs every step operator by operator.
  TrainingStep(const Config& config, nn::VisionTransformer& model, nn::FlatParameters& flat,
               nn::Optimizer& optimizer, nn::Ema* ema, bool record);

  // Starts step number `step` of the run, from 0. Mixes the batch if the config says so.
  void start(data::Batch& batch, int64_t step, double lr);
  // The mean loss of the step started last or of the one before it.
  double loss(int64_t step) const { return losses_[step % 2].wait(); }

 private:
  void work();
  Tensor loss_of_batch() const;

  const Config& config_;
  nn::VisionTransformer& model_;
  nn::FlatParameters& flat_;
  nn::Optimizer& optimizer_;
  nn::Ema* ema_;
  bool record_, mixes_;
  Tensor images_;   // [B, C, H, W] of the dtype that the model computes in
  Tensor targets_;  // i32 [B], or mixed ones: f32 [B, classes]
  Upload to_images_, to_targets_;
  Tensor loss_;  // []
  Readback losses_[2];
  bool ran_ = false;
  std::unique_ptr<Graph> graph_;
};

}  // namespace pursuit::classify
