#pragma once
#include <functional>
#include <vector>

#include "engine/core/tensor.h"

namespace pursuit::nn {

struct WindowOptions {
  int64_t height = 512, width = 512;  // what the model was trained on
  int64_t stride = 0;  // pixels between windows, at most the shorter side; 0: windows side by side
  int64_t batch = 8;   // windows per call of the model
};

// Where windows start along a side: every `stride` pixels, the last one at the end of the side. {0} where one
// window covers it.
std::vector<int64_t> window_starts(int64_t size, int64_t window, int64_t stride);

// A model: windows [n, 3, height, width] to patch logits [n, classes, h, w] of any h and w.
using PatchLogits = std::function<Tensor(const Tensor& windows)>;

// The logits [1, classes, H, W] of a normalised picture [1, 3, H, W] of any size, f32, on its device: patch
// logits upsampled bilinearly to their window, the mean where windows overlap (Strudel et al., "Segmenter",
// ICCV 2021). A picture smaller than a window is filled up with 0. Off the tape.
Tensor sliding_window_logits(const PatchLogits& model, const Tensor& picture, const WindowOptions& options);

}  // namespace pursuit::nn
