#pragma once
#include <cstdint>
#include <optional>
#include <span>

#include "engine/sizes/affine_grid.h"
#include "nn/quantization/config.h"

// Ranges of activations (Bondarenko et al. 2023, section 5 and appendix C.4).
namespace pursuit::nn {

struct ValueRange {
  double low = 0, high = 0;
};

// The grid of 2^bits codes over a range, which is widened to include 0:
//   step = max((high - low) / (2^bits - 1), 1e-8), zero = clamp(round(-low / step), 0, 2^bits - 1).
// Its end `high` is at least 1e-8 (Bondarenko et al. 2023, appendix C.4).
AffineGrid asymmetric_grid(const ValueRange& range, int64_t bits);

// The range of one batch. Throws Error if a number is not finite or there is none.
// running: smallest and largest. percentile: those of p and 100 - p, interpolated linearly as by NumPy.
// mse: the range with the least squared rounding error, by a golden-section search over its width (both ends
// shrink by one factor) and then over its shift, of at most 2^bits / 4 steps; from at most 2^17 numbers, one of
// each of as many equal parts.
ValueRange batch_range(std::span<const float> x, const ActivationRanges& how, int64_t bits);

// The running mean of the batches' ranges.
class RunningRange {
 public:
  void add(const ValueRange& batch);
  const ValueRange& value() const { return *range_; }

 private:
  std::optional<ValueRange> range_;
};

}  // namespace pursuit::nn
