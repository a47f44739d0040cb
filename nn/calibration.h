#pragma once
#include <cstdint>
#include <vector>

#include "engine/core/tensor.h"

namespace pursuit::nn {

// Whether a classifier is right as often as it says: its confidence, the largest softmax probability, against
// its accuracy in bins of equal width (Guo et al., "On calibration of modern neural networks", ICML 2017).
struct Calibration {
  struct Bin {
    int64_t count = 0, correct = 0;
    double confidence = 0;  // sum over the bin's rows
  };
  std::vector<Bin> bins = std::vector<Bin>(15);  // bin m of M: confidences in (m / M, (m + 1) / M]

  // Adds rows of logits [rows, classes] with their labels [rows].
  void add(const Tensor& logits, const Tensor& labels);
  int64_t count() const;  // rows
  // The expected calibration error in [0, 1]: the mean over all rows of |accuracy - mean confidence| of the
  // row's bin; NaN without rows.
  double error() const;
};

}  // namespace pursuit::nn
