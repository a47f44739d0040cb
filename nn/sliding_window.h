#pragma once
#include <functional>
#include <vector>

#include "engine/core/tensor.h"

namespace pursuit::nn {

struct WindowOptions {
  int64_t height = 512, width = 512;  // the training size of the model
  int64_t stride = 0;                 // pixels between windows, at most the shorter side; 0: no overlap
  int64_t batch = 8;                  // windows per call of the model
};

// The start of each window along a side: every `stride` pixels, the last one flush with the end. {0} if one
// window covers the side.
std::vector<int64_t> window_starts(int64_t size, int64_t window, int64_t stride);

// A model that maps windows [n, 3, height, width] to patch logits [n, classes, h, w] of any h and w.
using PatchLogits = std::function<Tensor(const Tensor& windows)>;

// The windows that cover a normalised image [1, 3, H, W], which is padded with 0 on the right and below if it
// is smaller than a window. With autograd.
class Windows {
 public:
  struct Corner {
    int64_t y, x;  // top, left
  };

  // Throws Error if the picture has another shape or the windows leave gaps.
  Windows(const Tensor& picture, const WindowOptions& options);
  int64_t size() const { return int64_t(corners_.size()); }
  Corner corner(int64_t i) const { return corners_[size_t(i)]; }  // row by row
  const Tensor& padded() const { return padded_; }

  // The model's logits, f32 [n, classes, height, width], of n windows from `first` on; n is options.batch or
  // what is left. Patch logits are upsampled bilinearly.
  Tensor logits(const PatchLogits& model, int64_t first) const;

 private:
  Tensor padded_;
  WindowOptions options_;
  std::vector<Corner> corners_;
};

// The logits [1, classes, H, W] of a normalised image [1, 3, H, W] of any size, f32, on its device: patch
// logits are upsampled bilinearly to their window and averaged where windows overlap (Strudel et al.,
// "Segmenter", ICCV 2021). An image smaller than a window is padded with 0. No autograd.
Tensor sliding_window_logits(const PatchLogits& model, const Tensor& picture, const WindowOptions& options);

}  // namespace pursuit::nn
