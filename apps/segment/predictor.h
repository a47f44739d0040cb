#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "apps/segment/sliding_window.h"
#include "data/image.h"
#include "engine/core/device.h"
#include "engine/core/dtype.h"

namespace pursuit::segment {

// How a picture is looked at.
struct Views {
  int64_t short_side = 0;            // the picture is scaled to it, keeping its ratio; 0: as it is
  int64_t long_side = 0;             // but so that the longer side is at most this; 0: no limit
  std::vector<double> scales = {1};  // of that size; probabilities are averaged over them ...
  bool flip = false;                 // ... and over the mirrored pictures
  WindowOptions window;
};
std::string describe(const Views& views);  // "shorter side 512, stride 480, scales 0.75,1, flip"

// From pictures to classes.
struct Predictor {
  PatchLogits model;
  std::vector<double> mean, std;
  DType dtype = DType::f32;
  Device device = cpu;
  Views views;

  // The class of every pixel of an RGB picture, at its own size, one channel. Throws Error if the model gives
  // NaN, or if the picture takes more memory than there is.
  data::Image classes_of(const data::Image& picture) const;
  // The same work for a picture of this size, on shapes alone (engine/core/shapes_only.h).
  void look_on_shapes(int64_t height, int64_t width) const;

 private:
  void require_memory(int64_t height, int64_t width) const;
  // The classes, i32 [1, height, width]; `pixels(scale, flip)` gives a view's, u8 [1, 3, h, w].
  Tensor look(int64_t height, int64_t width, const std::function<Tensor(double, bool)>& pixels) const;

  mutable std::pair<int64_t, int64_t> fits_ = {0, 0};  // the picture's size for which there is memory
};

}  // namespace pursuit::segment
