#include "apps/classify/training_step.h"

#include "data/mixup.h"
#include "engine/ops.h"

namespace pursuit::classify {

namespace {

// Philox streams of one seed, apart from those of the weights (small numbers), the data and the layers'
// noise.
constexpr uint64_t mixup_streams = uint64_t(1) << 40;

Shape images_shape(const Config& c) { return {c.batch_size, c.channels, c.image_size, c.image_size}; }

}  // namespace

TrainingStep::TrainingStep(const Config& config, nn::VisionTransformer& model, nn::FlatParameters& flat,
                           nn::Optimizer& optimizer, nn::Ema* ema, bool record)
    : config_(config),
      model_(model),
      flat_(flat),
      optimizer_(optimizer),
      ema_(ema),
      record_(record && flat.on_gpu()),
      mixes_(config.mixup > 0 || config.cutmix > 0),
      images_(empty(images_shape(config), dtype_from_name(config.dtype), flat.values.device())),
      targets_(mixes_ ? empty({config.batch_size, int64_t(config.classes.size())}, DType::f32,
                              flat.values.device())
                      : empty({config.batch_size}, DType::i32, flat.values.device())),
      to_images_(images_, DType::f32),
      to_targets_(targets_, targets_.dtype()),
      losses_{Readback(flat.values.device()), Readback(flat.values.device())} {}

void TrainingStep::start(data::Batch& batch, int64_t step, double lr) {
  if (mixes_) {
    Random random(config_.seed, mixup_streams + uint64_t(step));
    const std::vector<float> targets = data::mixup(batch, int64_t(config_.classes.size()),
                                                   {.mixup_alpha = config_.mixup,
                                                    .cutmix_alpha = config_.cutmix,
                                                    .label_smoothing = config_.label_smoothing},
                                                   random);
    to_targets_.send(targets.data());
  } else {
    to_targets_.send(batch.labels.data());
  }
  to_images_.send(batch.images.data());
  model_.set_training(true);
  model_.set_step(config_.seed, uint64_t(step));
  optimizer_.begin(lr);
  if (record_ && ran_ && !graph_) graph_ = std::make_unique<Graph>(images_.device(), [this] { work(); });
  graph_ ? graph_->launch() : work();
  ran_ = true;
  losses_[step % 2].start(loss_);
}

void TrainingStep::work() {
  flat_.zero_grad();
  const Tensor loss = loss_of_batch();
  loss.backward();
  flat_.finish_grad();
  optimizer_.update();
  if (ema_) ema_->update();
  loss_ = loss.detach();
}

Tensor TrainingStep::loss_of_batch() const {
  const Tensor logits = model_.forward(images_).to(DType::f32);
  return mixes_ ? soft_cross_entropy(logits, targets_)
                : cross_entropy(logits, targets_, config_.label_smoothing);
}

}  // namespace pursuit::classify
