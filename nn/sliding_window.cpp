#include "nn/sliding_window.h"

#include <algorithm>

#include "engine/ops.h"

namespace pursuit::nn {

namespace {

struct Corner {
  int64_t y, x;
};

Tensor window_of(const Tensor& x, Corner c, int64_t height, int64_t width) {
  return x.slice(2, c.y, c.y + height).slice(3, c.x, c.x + width);
}

// Zero-pads the picture on the right and below to at least height x width.
Tensor padded(const Tensor& picture, int64_t height, int64_t width) {
  const int64_t h = picture.size(2), w = picture.size(3);
  if (h >= height && w >= width) return picture;
  const Tensor out =
      zeros({1, picture.size(1), std::max(h, height), std::max(w, width)}, picture.dtype(), picture.device());
  copy_values(window_of(out, {0, 0}, h, w), picture);
  return out;
}

}  // namespace

std::vector<int64_t> window_starts(int64_t size, int64_t window, int64_t stride) {
  std::vector<int64_t> starts;
  for (int64_t at = 0; at + window < size; at += stride) starts.push_back(at);
  starts.push_back(std::max<int64_t>(0, size - window));
  return starts;
}

Tensor sliding_window_logits(const PatchLogits& model, const Tensor& picture, const WindowOptions& o) {
  NoGrad off;
  if (picture.ndim() != 4 || picture.size(0) != 1)
    fail("sliding window", "got a picture " + picture.str() + ", need [1, 3, height, width]");
  if (o.height < 1 || o.width < 1 || o.batch < 1 || o.stride < 0 || o.stride > std::min(o.height, o.width))
    fail("sliding window", "got windows of " + std::to_string(o.height) + " x " + std::to_string(o.width) +
                               " every " + std::to_string(o.stride) + " pixels, " + std::to_string(o.batch) +
                               " at once; they must be at least 1 x 1 and leave no gap");
  const Tensor x = padded(picture, o.height, o.width);
  std::vector<Corner> corners;
  for (const int64_t y : window_starts(x.size(2), o.height, o.stride ? o.stride : o.height))
    for (const int64_t left : window_starts(x.size(3), o.width, o.stride ? o.stride : o.width))
      corners.push_back({y, left});

  Tensor sum;
  const Tensor count = zeros({1, 1, x.size(2), x.size(3)}, DType::f32, x.device());
  for (size_t first = 0; first < corners.size(); first += size_t(o.batch)) {
    const size_t n = std::min(corners.size() - first, size_t(o.batch));
    const Tensor windows = empty({int64_t(n), x.size(1), o.height, o.width}, x.dtype(), x.device());
    for (size_t i = 0; i < n; ++i)
      copy_values(windows.slice(0, int64_t(i), int64_t(i) + 1),
                  window_of(x, corners[first + i], o.height, o.width));
    const Tensor logits = upsample_bilinear(model(windows).to(DType::f32), o.height, o.width);
    if (!sum.defined()) sum = zeros({1, logits.size(1), x.size(2), x.size(3)}, DType::f32, x.device());
    for (size_t i = 0; i < n; ++i) {
      const Corner c = corners[first + i];
      add_to(window_of(sum, c, o.height, o.width), logits.slice(0, int64_t(i), int64_t(i) + 1));
      add_to(window_of(count, c, o.height, o.width), ones({1, 1, o.height, o.width}, DType::f32, x.device()));
    }
  }
  return window_of(sum / count, {0, 0}, picture.size(2), picture.size(3));
}

}  // namespace pursuit::nn
