#pragma once
#include <memory>

#include "apps/training/task.h"
#include "engine/graph.h"
#include "engine/transfer.h"
#include "nn/optim.h"

namespace pursuit::apps {

// Work on a GPU that is run over and over: the first time operator by operator, from the second on as a
// graph, with the same result. On a CPU, and unless it is to be recorded, always operator by operator.
class Replayed {
 public:
  Replayed(Device device, bool record) : device_(device), record_(record && device.is_cuda()) {}
  template <class F>
  void operator()(const F& work) {
    if (record_ && ran_ && !graph_) graph_ = std::make_unique<Graph>(device_, work);
    graph_ ? graph_->launch() : work();
    ran_ = true;
  }

 private:
  Device device_;
  bool record_, ran_ = false;
  std::unique_ptr<Graph> graph_;
};

// From the batches of a step to the updated weights, on the device where the weights are. The host only
// starts the work and waits in loss().
class TrainingStep {
 public:
  // A step is of `batches` batches: the gradients are those of the mean loss over all that their labels
  // count. `ema` may be null; `record` false runs every step operator by operator.
  TrainingStep(Task& task, int64_t batches, nn::FlatParameters& flat, nn::Optimizer& optimizer, nn::Ema* ema,
               bool record);

  // Starts step number `step` of the run, from 0. Returns its samples.
  int64_t start(int64_t step, double lr);
  // The loss to show of the step started last or of the one before it.
  double loss(int64_t step) const { return losses_[step % 2].wait(); }

 private:
  void of_one_batch();
  void add_batch();
  void update(const Tensor& weight);

  Task& task_;
  int64_t batches_;
  nn::FlatParameters& flat_;
  nn::Optimizer& optimizer_;
  nn::Ema* ema_;
  Replayed step_, batch_, update_;
  Upload weight_;  // [], of the batch
  // Of several batches [2]: the sum of their losses to show, each times its weight, and of their weights.
  Tensor sums_;
  Tensor shown_;  // []
  Readback losses_[2];
};

}  // namespace pursuit::apps
