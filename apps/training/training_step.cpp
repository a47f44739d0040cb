#include "apps/training/training_step.h"

namespace pursuit::apps {

TrainingStep::TrainingStep(Task& task, nn::FlatParameters& flat, nn::Optimizer& optimizer, nn::Ema* ema,
                           bool record)
    : task_(task),
      flat_(flat),
      optimizer_(optimizer),
      ema_(ema),
      record_(record && flat.on_gpu()),
      losses_{Readback(flat.values.device()), Readback(flat.values.device())} {}

void TrainingStep::start(int64_t step, double lr) {
  task_.model().set_training(true);
  optimizer_.begin(lr);
  if (record_ && ran_ && !graph_) graph_ = std::make_unique<Graph>(flat_.values.device(), [this] { work(); });
  graph_ ? graph_->launch() : work();
  ran_ = true;
  losses_[step % 2].start(shown_);
}

void TrainingStep::work() {
  flat_.zero_grad();
  const Loss loss = task_.loss();
  loss.minimised.backward();
  optimizer_.update();
  if (ema_) ema_->update();
  shown_ = (loss.shown.defined() ? loss.shown : loss.minimised).detach();
}

}  // namespace pursuit::apps
