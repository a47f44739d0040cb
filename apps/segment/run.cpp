#include "apps/segment/run.h"

#include <fmt/format.h>

namespace pursuit::segment {

void load_encoder(nn::Segmenter& model, const std::string& run_or_file) {
  const apps::Checkpoint checkpoint = apps::open_checkpoint("classify", run_or_file);
  model.load_encoder(checkpoint.file.tensors, checkpoint.path);
}

Views views_of(const Config& c) {
  return {.short_side = c.short_side,
          .long_side = c.long_side,
          .scales = c.scales,
          .flip = c.eval_flip,
          .window = {.height = c.height, .width = c.width, .stride = c.stride, .batch = c.eval_batch_size}};
}

Predictor predictor_of(const nn::Segmenter& model, const Config& c) {
  Predictor p;
  p.model = [&model](const Tensor& windows) { return model(windows); };
  p.mean = c.mean;
  p.std = c.std;
  p.dtype = c.dtype;
  p.device = device_from_name(c.device);
  p.views = views_of(c);
  return p;
}

Predictor predictor_of(LoadedModel& loaded, const UseOptions& o) {
  Config& c = loaded.config;
  if (o.batch_size > 0) c.eval_batch_size = o.batch_size;
  if (o.short_side >= 0) c.short_side = o.short_side;
  if (o.long_side >= 0) c.long_side = o.long_side;
  if (o.stride) c.stride = *o.stride;
  if (!o.scales.empty()) c.scales = o.scales;
  if (o.flip) c.eval_flip = *o.flip;
  if (o.long_side > 0 && c.short_side == 0)
    fail("segment", "--long-side limits what --short-side makes larger: give --short-side too");
  validate(c);
  return predictor_of(*loaded.model, c);
}

}  // namespace pursuit::segment
