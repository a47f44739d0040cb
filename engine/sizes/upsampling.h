#pragma once
#include <cstdint>

#include "engine/base/hd.h"

namespace pursuit {

// Logits [batch, rows, cols, classes], one row per token, upsampled to height x width pixels.
struct Upsampling {
  int64_t batch = 0, rows = 0, cols = 0, classes = 0, height = 0, width = 0;

  HD int64_t tokens() const { return batch * rows * cols; }
  HD int64_t pixels() const { return batch * height * width; }
};

}  // namespace pursuit
