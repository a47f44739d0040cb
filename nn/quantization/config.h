#pragma once
#include <cstdint>
#include <memory>

#include "engine/base/choice.h"

// Quantised models after Bondarenko, Nagel & Blankevoort 2023, "Quantizable Transformers": uniform affine
// quantisation of weights (symmetric) and activations (asymmetric), static ranges from a few batches.
namespace pursuit::nn {

// What shares one scale of the weights.
enum class Granularity { tensor, channel };
inline std::vector<Choice<Granularity>> choices_of(Granularity) {
  return {{"tensor", Granularity::tensor, "one scale for a matrix, as published"},
          {"channel", Granularity::channel, "one for every output, and for every row of an embedding"}};
}

struct QuantizationConfig {
  int64_t weight_bits = 8, activation_bits = 8;  // 2 to 8
  bool float_head = false;  // the output layer in floating point, and an embedding that it shares
};

enum class RangeEstimator { running, percentile, mse };
inline std::vector<Choice<RangeEstimator>> choices_of(RangeEstimator) {
  return {{"running", RangeEstimator::running, "smallest and largest number of a batch"},
          {"percentile", RangeEstimator::percentile},
          {"mse", RangeEstimator::mse, "least squared error of a batch"}};
}
// How ranges of activations are estimated; each batch's range enters a running mean, new = 0.9 old + 0.1
// batch.
struct ActivationRanges {
  RangeEstimator estimator = RangeEstimator::running;
  double percentile = 99.999;
};

// How a quantised model runs.
enum class QuantizedRun {
  integer,     // linear layers multiply int8 weights by codes of activations
  simulated,   // all in f32, of numbers on their grids; equal up to rounding
  calibrating  // simulated; every batch first enters the ranges of the tensors that it passes
};

// Shared by all modules of a quantised model.
struct Quantization {
  QuantizationConfig config;
  QuantizedRun run = QuantizedRun::integer;
  ActivationRanges ranges = {};
};

}  // namespace pursuit::nn
