#pragma once
#include <string>
#include <vector>

#include "apps/segment/sliding_window.h"
#include "data/image.h"
#include "engine/device.h"
#include "engine/dtype.h"

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
  // NaN.
  data::Image classes_of(const data::Image& picture) const;
};

}  // namespace pursuit::segment
