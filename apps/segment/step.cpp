#include "apps/segment/step.h"

#include "apps/segment/run.h"
#include "apps/training/step_memory.h"
#include "data/segmentation.h"
#include "engine/ops.h"

namespace pursuit::segment {

StepInput::StepInput(const Config& c, Device device)
    : images({c.batch_size, 3, c.height, c.width}, DType::u8, device),
      labels({c.batch_size, c.height, c.width}, DType::i32, device) {}

nn::Loss loss(const nn::Segmenter& model, const Config& c, const StepInput& in) {
  const Tensor images = normalise_images(in.images.tensor(), c.mean, c.std, c.dtype);
  return {upsample_cross_entropy(model(images), in.labels.tensor(), data::kIgnoredLabel)};
}

void train_on_shapes(const Config& c, int64_t height, int64_t width) {
  const Device device = device_from_name(c.device);
  nn::Segmenter model(model_config(c));
  model.to(device);
  const StepInput input(c, device);
  model.set_step(0, 0);
  apps::train_on_shapes(
      model, c, [&] { return loss(model, c, input); },
      [&] { predictor_of(model, c).look_on_shapes(height, width); });
}

}  // namespace pursuit::segment
