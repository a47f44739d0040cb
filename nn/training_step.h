#pragma once
#include "engine/distributed/communicator.h"
#include "engine/step/graph.h"
#include "engine/step/transfer.h"
#include "nn/module.h"
#include "nn/optim.h"
#include "nn/rank_gradients.h"

namespace pursuit::nn {

// Of a batch that was sent.
struct SentBatch {
  int64_t samples;
  double weight = 1;  // of its mean loss beside other batches': the labels it counts over those of a full one
};

struct Loss {
  Tensor minimised;   // []
  Tensor shown = {};  // [], what progress and metrics show, if that is another number
};

// What a training minimises: the mean loss over batches.
class Objective {
 public:
  virtual ~Objective() = default;
  // Sends the next batch, and what else differs from one to the next, to the tensors that loss() reads.
  // `step` is the number of the optimizer step in the run, from 0, `batch` that of its batches on this rank.
  virtual SentBatch next_batch(int64_t step, int64_t batch) = 0;
  // The loss of that batch. On a GPU it is recorded once and replayed: what it reads keeps its address, and
  // nothing waits for the device.
  virtual Loss loss() = 0;
};

// From the batches of a step to the updated weights, on the device where the weights are. The host only
// starts the work and waits in loss().
class TrainingStep {
 public:
  // A step is of `accumulate` batches of each of the ranks: the gradients are those of the mean loss over all
  // that their labels count. The model's f32 buffers become the mean of the ranks'. `ema` may be null;
  // `record` false runs every step operator by operator. All arguments outlive this.
  TrainingStep(Objective& objective, int64_t accumulate, distributed::Communicator& ranks,
               FlatParameters& flat, Optimizer& optimizer, Ema* ema, bool record);

  // Starts step number `step` of the run, from 0; `stop`: this rank was asked to stop. Returns the samples of
  // all ranks, taken to have as many each.
  int64_t start(int64_t step, double lr, bool stop = false);
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

  Objective& objective_;
  int64_t accumulate_;
  distributed::Communicator& ranks_;
  FlatParameters& flat_;
  Optimizer& optimizer_;
  Ema* ema_;
  RankGradients gradients_;
  Replayed step_, batch_, last_batch_;
  Upload weight_;  // [], of the batch
  // [3], over the batches of a step: the sum of the losses to show, each times its weight; of the weights; of
  // the ranks that were asked to stop.
  Tensor sums_;
  Tensor shown_;  // []
  Readback losses_[2], stops_[2];
};

}  // namespace pursuit::nn
