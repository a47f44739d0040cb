#include "apps/classify/step.h"

#include "apps/training/step_memory.h"
#include "engine/core/streams.h"
#include "engine/ops.h"

namespace pursuit::classify {

namespace {

bool mixes(const Config& c) { return c.mixup > 0 || c.cutmix > 0; }

}  // namespace

StepInput::StepInput(const Config& c, Device device)
    : images({c.batch_size, c.channels, c.image_size, c.image_size}, DType::u8, device),
      targets(mixes(c) ? Shape{c.batch_size, int64_t(c.classes.size())} : Shape{c.batch_size},
              mixes(c) ? DType::f32 : DType::i32, device) {
  if (c.random_erasing > 0) erased.emplace(Shape{c.batch_size, 4}, DType::i32, device);
  if (mixes(c)) mix.emplace(Shape{c.batch_size, 6}, DType::f32, device);
}

nn::Loss loss(const nn::VisionTransformer& model, const Config& c, const StepInput& in) {
  const nn::Noise& noise = model.noise();
  const Tensor images = normalise_images(
      in.images.tensor(), c.mean, c.std, c.dtype, in.erased ? in.erased->tensor() : Tensor(),
      in.mix ? in.mix->tensor() : Tensor(), noise.seed, noise.of(streams::step::erasing), noise.counter);
  const Tensor logits = model(images).to(DType::f32), &targets = in.targets.tensor();
  return {in.mix ? soft_cross_entropy(logits, targets) : cross_entropy(logits, targets, c.label_smoothing)};
}

void train_on_shapes(const Config& c) {
  const Device device = device_from_name(c.device);
  nn::VisionTransformer model(model_config(c));
  model.to(device);
  const StepInput input(c, device);
  model.set_step(0, 0);
  apps::train_on_shapes(
      model, c, [&] { return loss(model, c, input); },
      [&] {
        NoGrad off;
        evaluate_on_shapes(model, c, false);
      });
}

void evaluate_on_shapes(const nn::VisionTransformer& model, const Config& c, bool gradients) {
  const Device device = device_from_name(c.device);
  const Tensor pictures =
      empty({c.eval_batch_size, c.channels, c.image_size, c.image_size}, DType::u8, device);
  Tensor images = normalise_images(pictures, c.mean, c.std, c.dtype);
  if (gradients) images.requires_grad();
  const Tensor logits = model(images).to(DType::f32),
               loss = cross_entropy(logits, empty({c.eval_batch_size}, DType::i32, device));
  if (gradients) loss.backward();
}

}  // namespace pursuit::classify
