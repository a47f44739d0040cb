#include "nn/sliding_window.h"

#include <algorithm>

#include "engine/ops.h"

namespace pursuit::nn {

namespace {

Tensor window_of(const Tensor& x, Windows::Corner c, int64_t height, int64_t width) {
  return x.slice(2, c.y, c.y + height).slice(3, c.x, c.x + width);
}

// Zero-pads the picture on the right and below to at least height x width.
Tensor padded_to(Tensor x, int64_t height, int64_t width) {
  for (const auto& [dim, side] : {std::pair{2, height}, {3, width}}) {
    if (x.size(dim) >= side) continue;
    Shape more = x.shape();
    more[size_t(dim)] = side - x.size(dim);
    x = concat({x, zeros(more, x.dtype(), x.device())}, dim);
  }
  return x;
}

}  // namespace

std::vector<int64_t> window_starts(int64_t size, int64_t window, int64_t stride) {
  std::vector<int64_t> starts;
  for (int64_t at = 0; at + window < size; at += stride) starts.push_back(at);
  starts.push_back(std::max<int64_t>(0, size - window));
  return starts;
}

Windows::Windows(const Tensor& picture, const WindowOptions& o) : options_(o) {
  if (picture.ndim() != 4 || picture.size(0) != 1)
    fail("sliding window", "got a picture " + picture.str() + ", need [1, 3, height, width]");
  if (o.height < 1 || o.width < 1 || o.batch < 1 || o.stride < 0 || o.stride > std::min(o.height, o.width))
    fail("sliding window", "got windows of " + std::to_string(o.height) + " x " + std::to_string(o.width) +
                               " every " + std::to_string(o.stride) + " pixels, " + std::to_string(o.batch) +
                               " at once; they must be at least 1 x 1 and leave no gap");
  padded_ = padded_to(picture, o.height, o.width);
  for (const int64_t y : window_starts(padded_.size(2), o.height, o.stride ? o.stride : o.height))
    for (const int64_t left : window_starts(padded_.size(3), o.width, o.stride ? o.stride : o.width))
      corners_.push_back({y, left});
}

Tensor Windows::logits(const PatchLogits& model, int64_t first) const {
  std::vector<Tensor> windows;
  for (int64_t i = first; i < std::min(size(), first + options_.batch); ++i)
    windows.push_back(window_of(padded_, corner(i), options_.height, options_.width));
  return upsample_bilinear(model(concat(windows, 0)).to(DType::f32), options_.height, options_.width);
}

Tensor sliding_window_logits(const PatchLogits& model, const Tensor& picture, const WindowOptions& o) {
  NoGrad off;
  const Windows windows(picture, o);
  const Tensor& x = windows.padded();
  Tensor sum;
  const Tensor count = zeros({1, 1, x.size(2), x.size(3)}, DType::f32, x.device());
  for (int64_t first = 0; first < windows.size(); first += o.batch) {
    const Tensor logits = windows.logits(model, first);
    if (!sum.defined()) sum = zeros({1, logits.size(1), x.size(2), x.size(3)}, DType::f32, x.device());
    for (int64_t i = 0; i < logits.size(0); ++i) {
      const Windows::Corner c = windows.corner(first + i);
      add_to(window_of(sum, c, o.height, o.width), logits.slice(0, i, i + 1));
      add_to(window_of(count, c, o.height, o.width), ones({1, 1, o.height, o.width}, DType::f32, x.device()));
    }
  }
  return window_of(sum / count, {0, 0}, picture.size(2), picture.size(3));
}

}  // namespace pursuit::nn
