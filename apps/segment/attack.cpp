#include "apps/segment/attack.h"

#include <algorithm>

#include "data/resize.h"
#include "engine/ops.h"

namespace pursuit::segment {

namespace {

// x filled up with 0 on the right and below, as sliding_window_logits does, but with gradients.
Tensor filled_up(Tensor x, int64_t height, int64_t width) {
  for (const auto& [dim, side] : {std::pair{2, height}, {3, width}}) {
    if (x.size(dim) >= side) continue;
    Shape more = x.shape();
    more[size_t(dim)] = side - x.size(dim);
    x = concat({x, zeros(more, x.dtype(), x.device())}, dim);
  }
  return x;
}

}  // namespace

Tensor attacked(const Predictor& predictor, const Tensor& x, const data::Image& labels,
                const attacks::Settings& settings, int64_t number) {
  const nn::WindowOptions& w = predictor.views.window;
  const int64_t height = x.size(2), width = x.size(3);
  const auto rows = nn::window_starts(std::max(height, w.height), w.height, w.stride ? w.stride : w.height);
  const auto columns = nn::window_starts(std::max(width, w.width), w.width, w.stride ? w.stride : w.width);
  const data::Image map = data::resize_nearest(labels, int(width), int(height));

  std::vector<std::pair<int64_t, int64_t>> corners;
  std::vector<int64_t> targets;  // [windows, w.height, w.width]; -1: not counted
  for (const int64_t top : rows)
    for (const int64_t left : columns) {
      corners.emplace_back(top, left);
      for (int64_t y = top; y < top + w.height; ++y)
        for (int64_t at = left; at < left + w.width; ++at) {
          const bool inside = y < height && at < width;
          const uint8_t label = inside ? *map.at(int(at), int(y)) : data::kIgnoredLabel;
          targets.push_back(label == data::kIgnoredLabel ? -1 : label);
        }
    }
  if (std::all_of(targets.begin(), targets.end(), [](int64_t t) { return t < 0; })) return x;

  const auto logits = [&](const Tensor& view) {  // [windows * w.height * w.width, classes]
    const Tensor whole = filled_up(view, w.height, w.width);
    std::vector<Tensor> all;
    for (size_t first = 0; first < corners.size(); first += size_t(w.batch)) {
      std::vector<Tensor> windows;
      for (size_t i = first; i < std::min(corners.size(), first + size_t(w.batch)); ++i) {
        const auto& [top, left] = corners[i];
        windows.push_back(whole.slice(2, top, top + w.height).slice(3, left, left + w.width));
      }
      const Tensor of_patches = predictor.model(concat(windows, 0)).to(DType::f32);
      const Tensor full = upsample_bilinear(of_patches, w.height, w.width).permute({0, 2, 3, 1});
      all.push_back(full.reshape({full.size(0) * w.height * w.width, full.size(3)}));
    }
    return concat(all, 0);
  };
  const Tensor wanted = from_vector(targets, {int64_t(targets.size())}).to(x.device());
  return attacks::attack(logits, x, wanted, settings, {number});
}

}  // namespace pursuit::segment
