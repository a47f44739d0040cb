#include "apps/segment/predictor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "data/augment.h"
#include "data/resize.h"
#include "engine/ops.h"

namespace pursuit::segment {

namespace {

data::Image scaled(const data::Image& picture, const Views& views, double scale) {
  double ratio = 1;
  if (views.short_side) ratio = double(views.short_side) / std::min(picture.width, picture.height);
  if (views.short_side && views.long_side)
    ratio = std::min(ratio, double(views.long_side) / std::max(picture.width, picture.height));
  ratio *= scale;
  const auto side = [&](int pixels) { return std::max(1, int(std::lround(pixels * ratio))); };
  if (side(picture.width) == picture.width && side(picture.height) == picture.height) return picture;
  return data::resize(picture, side(picture.width), side(picture.height), data::Filter::bilinear);
}

Tensor logits_of(const Predictor& p, const data::Image& picture) {
  const Shape shape{1, 3, picture.height, picture.width};
  std::vector<uint8_t> planes(size_t(shape.numel()));
  data::to_planes(picture, planes);
  const Tensor x = normalise_images(from_vector(planes, shape).to(p.device), p.mean, p.std, p.dtype);
  return sliding_window_logits(p.model, x, p.views.window);
}

// Columns [1, classes, height, width] in reverse order.
Tensor mirrored(const Tensor& logits) {
  const Tensor out = empty_like(logits);
  const int64_t width = logits.size(3);
  for (int64_t x = 0; x < width; ++x)
    copy_values(out.slice(3, x, x + 1), logits.slice(3, width - 1 - x, width - x));
  return out;
}

}  // namespace

std::string describe(const Views& v) {
  std::string text = v.short_side ? fmt::format("shorter side {}", v.short_side) : "own size";
  if (v.short_side && v.long_side) text += fmt::format(", longer one up to {}", v.long_side);
  text += v.window.stride ? fmt::format(", stride {}", v.window.stride) : ", windows side by side";
  if (v.scales != std::vector<double>{1}) text += fmt::format(", scales {}", fmt::join(v.scales, ","));
  return text + (v.flip ? ", flip" : "");
}

data::Image Predictor::classes_of(const data::Image& picture) const {
  NoGrad off;
  const data::Image rgb = data::to_rgb(picture);
  const int height = rgb.height, width = rgb.width;
  Tensor logits;  // [1, classes, h, w]: of the only view, or the sum of all views' probabilities at full size
  const bool single = views.scales.size() == 1 && !views.flip;
  for (const double scale : views.scales) {
    const data::Image view = scaled(rgb, views, scale);
    for (const bool flip : {false, true}) {
      if (flip && !views.flip) continue;
      const Tensor seen = logits_of(*this, flip ? data::flip_horizontal(view) : view);
      if (std::isnan(sum(seen).item())) fail("segment", "the model gives NaN; the run has diverged");
      if (single) {
        logits = seen;
        continue;
      }
      const Tensor full = upsample_bilinear(flip ? mirrored(seen) : seen, height, width);
      const Tensor probabilities = softmax(full.permute({0, 2, 3, 1})).permute({0, 3, 1, 2});
      logits = logits.defined() ? logits + probabilities : probabilities;
    }
  }
  const Tensor classes = upsample_argmax(logits, height, width).to(cpu);
  data::Image out(width, height, 1);
  std::copy_n(classes.data<int32_t>(), out.pixels.size(), out.pixels.begin());
  return out;
}

}  // namespace pursuit::segment
