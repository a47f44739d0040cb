#include "apps/training/training_step.h"

#include <cmath>

#include "engine/copy.h"
#include "engine/ops.h"

namespace pursuit::apps {

namespace {

Tensor shown(const Loss& loss) { return (loss.shown.defined() ? loss.shown : loss.minimised).detach(); }

}  // namespace

TrainingStep::TrainingStep(Task& task, int64_t batches, nn::FlatParameters& flat, nn::Optimizer& optimizer,
                           nn::Ema* ema, bool record)
    : task_(task),
      batches_(batches),
      flat_(flat),
      optimizer_(optimizer),
      ema_(ema),
      step_(flat.values.device(), record),
      batch_(flat.values.device(), record),
      update_(flat.values.device(), record),
      weight_({}, DType::f32, flat.values.device()),
      sums_(zeros({2}, DType::f32, flat.values.device())),
      losses_{Readback(flat.values.device()), Readback(flat.values.device())} {}

int64_t TrainingStep::start(int64_t step, double lr) {
  task_.model().set_training(true);
  optimizer_.begin(lr);
  int64_t samples = 0;
  if (batches_ == 1) {
    samples = task_.next_batch(step, 0).samples;
    step_([this] { of_one_batch(); });
  } else {
    flat_.zero_sum();
    const float none[2] = {0, 0};
    write_small(sums_, none);
    for (int64_t b = 0; b < batches_; ++b) {
      const Batch batch = task_.next_batch(step, b);
      samples += batch.samples;
      const float weight = float(batch.weight);
      weight_.send(&weight);
      batch_([this] { add_batch(); });
    }
    update_([this] {
      // A step without a label changes nothing.
      const Tensor weight = clamp(sums_.select(0, 1), 1e-20, INFINITY);
      shown_ = sums_.select(0, 0) / weight;
      update(weight);
    });
  }
  losses_[step % 2].start(shown_);
  return samples;
}

void TrainingStep::of_one_batch() {
  flat_.zero_grad();
  const Loss loss = task_.loss();
  loss.minimised.backward();
  update({});
  shown_ = shown(loss);
}

void TrainingStep::add_batch() {
  const Loss loss = task_.loss();
  loss.minimised.backward(weight_.tensor());
  flat_.add_grad();
  const Tensor weight = weight_.tensor();
  add_to(sums_.select(0, 0), weight * shown(loss));
  add_to(sums_.select(0, 1), weight);
}

void TrainingStep::update(const Tensor& weight) {
  optimizer_.update(weight);
  if (ema_) ema_->update();
}

}  // namespace pursuit::apps
