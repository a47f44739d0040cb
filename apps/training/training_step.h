#pragma once
#include <memory>

#include "apps/training/task.h"
#include "engine/graph.h"
#include "engine/transfer.h"
#include "nn/optim.h"
#include "nn/rank_gradients.h"

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
  // A step is of the batches of all `ranks`, share.count of them this one's: the gradients are those of the
  // mean loss over all that their labels count. `ema` may be null; `record` false runs every step operator by
  // operator.
  TrainingStep(Task& task, const data::Share& share, distributed::Communicator& ranks,
               nn::FlatParameters& flat, nn::Optimizer& optimizer, nn::Ema* ema, bool record);

  // Starts step number `step` of the run, from 0. Returns the samples of all ranks, taken to have as many
  // each.
  int64_t start(int64_t step, double lr);
  // Of the step started last or of the one before it, on all ranks the same: the loss to show, and whether a
  // rank had been asked to stop when it started the step.
  double loss(int64_t step) const { return losses_[step % 2].wait(); }
  bool stop(int64_t step) const { return stops_[step % 2].wait() > 0; }

 private:
  void of_one_batch();
  void of_several_batches(int64_t step, int64_t& samples);
  void add_batch(bool last);
  void divide_and_update();
  void update(const Tensor& weight);

  Task& task_;
  data::Share share_;
  distributed::Communicator& ranks_;
  nn::FlatParameters& flat_;
  nn::Optimizer& optimizer_;
  nn::Ema* ema_;
  nn::RankGradients gradients_;
  Replayed step_, batch_, last_batch_;
  Upload weight_;  // [], of the batch
  // [3], over the batches of a step: the sum of the losses to show, each times its weight; of the weights; of
  // the ranks that were asked to stop.
  Tensor sums_;
  Tensor shown_;  // []
  Readback losses_[2], stops_[2];
};

}  // namespace pursuit::apps
