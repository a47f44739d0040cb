#pragma once
#include "engine/distributed/communicator.h"
#include "engine/step/graph.h"
#include "engine/step/transfer.h"
#include "nn/module.h"
#include "nn/optim.h"
#include "nn/rank_gradients.h"

namespace pursuit::nn {

// A batch sent to the device.
struct SentBatch {
  int64_t samples;
  double weight = 1;  // weight of the batch's loss: its counted labels over those of a full batch
};

struct Loss {
  Tensor minimised;   // []
  Tensor shown = {};  // [], the loss shown in progress and metrics, if different
};

// The training objective: the mean loss over batches.
class Objective {
 public:
  virtual ~Objective() = default;
  // Sends the next batch, and everything else that changes from batch to batch, to the tensors that loss()
  // reads. `step` is the index of the optimizer step in the run, `batch` that of its batches on this rank.
  virtual SentBatch next_batch(int64_t step, int64_t batch) = 0;
  // The loss of that batch. On a GPU it is captured once and replayed: the tensors it reads must keep their
  // addresses, and it must not synchronise.
  virtual Loss loss() = 0;
};

// One optimizer step, from its batches to the updated weights, entirely on the weights' device. The host only
// launches work and waits in loss().
class TrainingStep {
 public:
  // A step has `accumulate` batches on each rank; its gradients are those of the mean loss over all counted
  // labels. The model's f32 buffers become the mean over ranks. `ema` may be null; with `record` = false
  // every step runs operator by operator. All arguments must outlive this.
  TrainingStep(Objective& objective, int64_t accumulate, distributed::Communicator& ranks,
               FlatParameters& flat, Optimizer& optimizer, Ema* ema, bool record);

  // Starts step `step` (from 0) of the run; `stop`: this rank was asked to stop. Returns the number of
  // samples over all ranks, assuming that each has as many.
  int64_t start(int64_t step, double lr, bool stop = false);
  // For the last step started or the one before; the same on all ranks: the loss to show, and whether any
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
  Upload weight_;  // [], of the current batch
  // [3], summed over the batches of a step: the weighted losses to show; the weights; the ranks that were
  // asked to stop.
  Tensor sums_;
  Tensor shown_;  // []
  Readback losses_[2], stops_[2];
};

}  // namespace pursuit::nn
