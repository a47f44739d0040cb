#include "apps/segment/predictor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <future>

#include "apps/terminal/signals.h"
#include "apps/training/checkpoint.h"
#include "apps/training/step_memory.h"
#include "data/augment.h"
#include "data/resize.h"
#include "engine/core/shapes_only.h"
#include "engine/ops.h"

namespace pursuit::segment {

namespace {

// The factor by which a picture of this size is resized for a view.
double ratio_of(const Views& views, int64_t height, int64_t width, double scale) {
  double ratio = 1;
  if (views.short_side) ratio = double(views.short_side) / double(std::min(height, width));
  if (views.short_side && views.long_side)
    ratio = std::min(ratio, double(views.long_side) / double(std::max(height, width)));
  return ratio * scale;
}

data::Image scaled(const data::Image& picture, double ratio) {
  const int height = data::scaled_side(picture.height, ratio),
            width = data::scaled_side(picture.width, ratio);
  if (height == picture.height && width == picture.width) return picture;
  return data::resize(picture, width, height, data::Filter::bilinear);
}

Tensor planes_of(const data::Image& picture) {
  const Shape shape{1, 3, picture.height, picture.width};
  std::vector<uint8_t> planes(size_t(shape.numel()));
  data::to_planes(picture, planes);
  return from_vector(planes, shape);
}

}  // namespace

Tensor numbers(const data::Image& classes) {
  return from_vector(classes.pixels, {classes.height, classes.width});
}

std::string describe(const Views& v) {
  std::string text = v.short_side ? fmt::format("shorter side {}", v.short_side) : "own size";
  if (v.short_side && v.long_side) text += fmt::format(", longer one up to {}", v.long_side);
  text += v.window.stride ? fmt::format(", stride {}", v.window.stride) : ", windows side by side";
  if (v.scales != std::vector<double>{1}) text += fmt::format(", scales {}", fmt::join(v.scales, ","));
  return text + (v.flip ? ", flip" : "");
}

Tensor Predictor::look(int64_t height, int64_t width, const std::function<Tensor(double, bool)>& pixels,
                       const ViewChange& change) const {
  Tensor logits;  // [1, classes, h, w]: a single view's logits, or the sum of the views' probabilities
  const bool single = views.scales.size() == 1 && !views.flip;
  for (const double scale : views.scales) {
    for (const bool flip : {false, true}) {
      if (flip && !views.flip) continue;
      Tensor x = normalise_images(pixels(scale, flip).to(device), mean, std, dtype);
      if (change) x = change(x);
      NoGrad off;
      const Tensor seen = nn::sliding_window_logits(model, x, views.window);
      if (!shapes_only() && std::isnan(sum(seen).item()))
        throw apps::NotFinite("the model gives NaN: its training has diverged");
      if (single) {
        logits = seen;
        continue;
      }
      const Tensor full = upsample_bilinear(flip ? pursuit::flip(seen, {3}) : seen, height, width);
      const Tensor probabilities = softmax(full.permute({0, 2, 3, 1})).permute({0, 3, 1, 2});
      logits = logits.defined() ? logits + probabilities : probabilities;
    }
  }
  return upsample_argmax(logits, height, width);
}

data::Image Predictor::classes_of(const data::Image& picture, const ViewChange& change) const {
  require_memory(picture.height, picture.width);
  const data::Image rgb = data::to_rgb(picture);
  data::Image view;
  double scale_of_view = 0;
  const auto pixels = [&](double scale, bool flip) {
    if (scale != scale_of_view) view = scaled(rgb, ratio_of(views, rgb.height, rgb.width, scale));
    scale_of_view = scale;
    return planes_of(flip ? data::flip_horizontal(view) : view);
  };
  const Tensor classes = look(rgb.height, rgb.width, pixels, change).to(cpu);
  data::Image out(rgb.width, rgb.height, 1);
  std::copy_n(classes.data<int64_t>(), out.pixels.size(), out.pixels.begin());
  return out;
}

void Predictor::require_memory(int64_t height, int64_t width) const {
  if (fits_ == std::pair{height, width}) return;
  apps::require_memory("segment", device,
                       fmt::format("{} (the picture has {} x {} pixels)", lower, width, height),
                       [&] { look_on_shapes(height, width); });
  fits_ = {height, width};
}

void Predictor::look_on_shapes(int64_t height, int64_t width) const {
  look(height, width, [&](double scale, bool) {
    const double ratio = ratio_of(views, height, width, scale);
    return empty({1, 3, data::scaled_side(height, ratio), data::scaled_side(width, ratio)}, DType::u8);
  });
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

Config ViewOptions::of(Config c) const {
  if (short_side) c.short_side = *short_side;
  if (long_side) c.long_side = *long_side;
  if (stride) c.stride = *stride;
  if (!scales.empty()) c.scales = scales;
  if (flip) c.eval_flip = *flip;
  if (long_side.value_or(0) > 0 && c.short_side == 0)
    fail("segment", "--long-side limits what --short-side makes larger: give --short-side too");
  validate(c);
  return c;
}

std::string ViewOptions::arguments() const {
  std::string text;
  if (short_side) text += fmt::format(" --short-side {}", *short_side);
  if (long_side) text += fmt::format(" --long-side {}", *long_side);
  if (stride) text += fmt::format(" --stride {}", *stride);
  if (!scales.empty()) text += fmt::format(" --scales {}", fmt::join(scales, ","));
  if (flip) text += *flip ? " --flip" : " --no-flip";
  return text;
}

Totals evaluate(const Predictor& predictor, const data::SegmentationDataset& data,
                const EvaluateOptions& options) {
  Totals out{nn::ConfusionMatrix(int64_t(data.classes().size()), data::kIgnoredLabel)};
  const auto prepare = [&](int64_t i) {
    data::SegmentationSample sample = data.get(i);
    if (options.change) sample.image = options.change(sample.image, sample.index);
    return sample;
  };
  std::future<data::SegmentationSample> next;
  const int64_t step = options.share.of;
  for (int64_t i = options.share.first; i < data.size(); i += step) {
    if (apps::stop_requested()) return out;
    const data::SegmentationSample sample = next.valid() ? next.get() : prepare(i);
    if (i + step < data.size()) next = std::async(std::launch::async, prepare, i + step);
    if (sample.index >= 0) {
      ViewChange change;
      if (options.attack) change = [&](const Tensor& view) { return options.attack(view, sample); };
      const data::Image classes = predictor.classes_of(sample.image, change);
      out.confusion.add(numbers(classes), numbers(sample.labels));
      ++out.count;
      if (options.seen) options.seen(i, sample, classes);
    }
    if (options.tick) options.tick(i + 1);
  }
  out.complete = true;
  return out;
}

}  // namespace pursuit::segment
