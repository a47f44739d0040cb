#pragma once
#include <memory>

#include "apps/training/task.h"
#include "engine/graph.h"
#include "engine/transfer.h"
#include "nn/optim.h"

namespace pursuit::apps {

// From a batch to the updated weights, on the device where the weights are. On a GPU the first step runs
// operator by operator, the second is recorded as a graph, which it and all later ones replay with the same
// result; the host only starts them and waits in loss().
class TrainingStep {
 public:
  // `ema` may be null; `record` false runs every step operator by operator.
  TrainingStep(Task& task, nn::FlatParameters& flat, nn::Optimizer& optimizer, nn::Ema* ema, bool record);

  // Starts step number `step` of the run, from 0, on the batch that the task has sent.
  void start(int64_t step, double lr);
  // The loss to show of the step started last or of the one before it.
  double loss(int64_t step) const { return losses_[step % 2].wait(); }

 private:
  void work();

  Task& task_;
  nn::FlatParameters& flat_;
  nn::Optimizer& optimizer_;
  nn::Ema* ema_;
  bool record_, ran_ = false;
  Tensor shown_;  // []
  Readback losses_[2];
  std::unique_ptr<Graph> graph_;
};

}  // namespace pursuit::apps
