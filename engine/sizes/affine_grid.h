#pragma once
#include <cstdint>

namespace pursuit {

// A uniform affine grid: code q of 0 ... levels stands for step (q - zero); step > 0 and
// 0 <= zero <= levels <= 255.
struct AffineGrid {
  float step = 1;
  int32_t zero = 0, levels = 255;
};

}  // namespace pursuit
