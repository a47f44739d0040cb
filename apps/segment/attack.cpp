#include "apps/segment/attack.h"

#include <algorithm>

#include "data/resize.h"
#include "engine/ops.h"

namespace pursuit::segment {

namespace {

// Of all windows of a view, [windows * window.height * window.width, classes].
Tensor logits_of(const Predictor& predictor, const Tensor& view) {
  const nn::Windows windows(view, predictor.views.window);
  std::vector<Tensor> all;
  for (int64_t first = 0; first < windows.size(); first += predictor.views.window.batch) {
    const Tensor each = windows.logits(predictor.model, first).permute({0, 2, 3, 1});
    all.push_back(each.reshape({each.numel() / each.size(3), each.size(3)}));
  }
  return concat(all, 0);
}

}  // namespace

void attack_on_shapes(const Predictor& predictor, const Shape& view) {
  Tensor x = empty(view, DType::f32, predictor.device);
  x.requires_grad();
  const Tensor logits = logits_of(predictor, x);
  cross_entropy(logits, empty({logits.size(0)}, DType::i64, predictor.device)).backward();
}

Tensor attacked(const Predictor& predictor, const Tensor& x, const data::Image& labels,
                const attacks::Settings& settings, int64_t number) {
  const nn::WindowOptions& w = predictor.views.window;
  const int64_t height = x.size(2), width = x.size(3);
  const nn::Windows windows(x, w);
  const data::Image map = data::resize_nearest(labels, int(width), int(height));

  std::vector<int64_t> targets;  // [windows, w.height, w.width]; -1: not counted
  for (int64_t i = 0; i < windows.size(); ++i) {
    const auto [top, left] = windows.corner(i);
    for (int64_t y = top; y < top + w.height; ++y)
      for (int64_t at = left; at < left + w.width; ++at) {
        const bool inside = y < height && at < width;
        const uint8_t label = inside ? *map.at(int(at), int(y)) : data::kIgnoredLabel;
        targets.push_back(label == data::kIgnoredLabel ? -1 : label);
      }
  }
  if (std::all_of(targets.begin(), targets.end(), [](int64_t t) { return t < 0; })) return x;

  const Tensor wanted = from_vector(targets, {int64_t(targets.size())}).to(x.device());
  return attacks::attack([&](const Tensor& view) { return logits_of(predictor, view); }, x, wanted, settings,
                         {number});
}

}  // namespace pursuit::segment
