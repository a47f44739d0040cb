#include "apps/segment/run.h"

#include <fmt/format.h>

#include <algorithm>

namespace pursuit::segment {

void load_encoder(nn::Segmenter& model, const std::string& run_or_file) {
  const apps::Checkpoint checkpoint = apps::open_checkpoint("classify", run_or_file);
  model.load_encoder(checkpoint.file.tensors, checkpoint.path);
}

Predictor predictor_of(const nn::Segmenter& model, const Config& c) {
  Predictor p;
  p.model = [&model](const Tensor& windows) { return model.forward(windows); };
  p.mean = c.mean;
  p.std = c.std;
  p.dtype = dtype_from_name(c.dtype);
  p.device = device_from_name(c.device);
  p.views.short_side = c.short_side;
  p.views.window = {.height = c.height, .width = c.width, .batch = c.eval_batch_size};
  return p;
}

Predictor predictor_of(LoadedModel& loaded, const UseOptions& o) {
  const auto need = [](bool ok, const std::string& text) {
    if (!ok) fail("segment", text);
  };
  Config& c = loaded.config;
  need(o.stride >= 0 && o.stride <= std::min(c.height, c.width),
       fmt::format("--stride is {}, need 0 (windows side by side) to {}, the shorter side of the windows",
                   o.stride, std::min(c.height, c.width)));
  need(!o.scales.empty() &&
           std::all_of(o.scales.begin(), o.scales.end(), [](double s) { return s >= 0.1 && s <= 4; }),
       "--scales: need numbers from 0.1 to 4");
  need(o.short_side >= -1 && o.short_side <= 16384,
       fmt::format("--short-side is {}, need 0 (own size) to 16384", o.short_side));
  need(o.batch_size >= 0, fmt::format("--batch-size is {}, need at least 1", o.batch_size));
  if (o.batch_size > 0) c.eval_batch_size = o.batch_size;
  if (o.short_side >= 0) c.short_side = o.short_side;
  validate(c);
  Predictor p = predictor_of(*loaded.model, c);
  p.views.scales = o.scales;
  p.views.flip = o.flip;
  p.views.window.stride = o.stride;
  return p;
}

}  // namespace pursuit::segment
