#include "nn/training_step.h"

#include <cmath>

#include "engine/inspect/trace.h"
#include "engine/operator/copy.h"
#include "engine/ops.h"

namespace pursuit::nn {

namespace {

Tensor shown(const Loss& loss) { return (loss.shown.defined() ? loss.shown : loss.minimised).detach(); }

// [ranks, x.numel()]. What is no gradient is gathered: all_reduce may send bf16, whose precision is too low for
// running statistics to change, or for a loss.
Tensor of_all_ranks(const Tensor& x, distributed::Communicator& ranks) {
  const Tensor all = empty({ranks.size(), x.numel()}, x.dtype(), x.device());
  ranks.all_gather(x, all);
  return all;
}

}  // namespace

TrainingStep::TrainingStep(Objective& objective, int64_t accumulate, distributed::Communicator& ranks,
                           FlatParameters& flat, Optimizer& optimizer, Ema* ema, bool record)
    : objective_(objective),
      accumulate_(accumulate),
      ranks_(ranks),
      flat_(flat),
      optimizer_(optimizer),
      ema_(ema),
      gradients_(flat, ranks),
      step_(flat.values.device(), record),
      batch_(flat.values.device(), record),
      last_batch_(flat.values.device(), record),
      weight_({}, DType::f32, flat.values.device()),
      sums_(zeros({3}, DType::f32, flat.values.device())),
      losses_{Readback(flat.values.device()), Readback(flat.values.device())},
      stops_{Readback(flat.values.device()), Readback(flat.values.device())} {}

int64_t TrainingStep::start(int64_t step, double lr, bool stop) {
  const TraceSpan span("step");
  optimizer_.begin(lr);
  const float sums[3] = {0, 0, stop ? 1.0f : 0.0f};
  write_small(sums_, sums);
  int64_t samples = 0;
  if (accumulate_ == 1 && ranks_.size() == 1) {
    samples = objective_.next_batch(step, 0).samples;
    step_([this] { of_one_batch(); });
  } else {
    of_several_batches(step, samples);
  }
  losses_[step % 2].start(shown_);
  stops_[step % 2].start(sums_.select(0, 2));
  return samples * ranks_.size();
}

void TrainingStep::of_one_batch() {
  flat_.zero_grad();
  const Loss loss = objective_.loss();
  loss.minimised.backward();
  update({});
  shown_ = shown(loss);
}

void TrainingStep::of_several_batches(int64_t step, int64_t& samples) {
  flat_.zero_sum();
  for (int64_t b = 0; b < accumulate_; ++b) {
    const SentBatch batch = objective_.next_batch(step, b);
    samples += batch.samples;
    const float weight = float(batch.weight);
    weight_.send(&weight);
    if (b + 1 < accumulate_)
      batch_([this] { add_batch(false); });
    else
      last_batch_([this] {
        add_batch(true);
        divide_and_update();
      });
  }
  ranks_.watch();
}

void TrainingStep::add_batch(bool last) {
  const Loss loss = objective_.loss();
  const Tensor& weight = weight_.tensor();
  add_to(sums_.select(0, 0), weight * shown(loss));
  add_to(sums_.select(0, 1), weight);
  if (last && ranks_.size() > 1) {
    gradients_.backward(loss.minimised, weight);
  } else {
    loss.minimised.backward(weight);
    flat_.add_grad();
  }
}

void TrainingStep::divide_and_update() {
  gradients_.wait();
  if (ranks_.size() > 1) {
    copy_values(sums_, sum(of_all_ranks(sums_, ranks_), {0}));
    if (flat_.buffers.defined()) copy_values(flat_.buffers, mean(of_all_ranks(flat_.buffers, ranks_), {0}));
  }
  // The lower bound makes a step without labels a step with zero gradients.
  const Tensor weight = clamp(sums_.select(0, 1), 1e-20, INFINITY);
  shown_ = sums_.select(0, 0) / weight;
  update(weight);
}

void TrainingStep::update(const Tensor& weight) {
  const TraceSpan span("update");
  optimizer_.update(weight);
  if (ema_) ema_->update();
}

}  // namespace pursuit::nn
