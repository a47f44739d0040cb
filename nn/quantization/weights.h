#pragma once
#include "engine/core/tensor.h"
#include "nn/quantization/config.h"

// Symmetric quantisation of weights (Bondarenko et al. 2023, equation 1): scale q with
// q = clamp(round(w / scale), -2^(bits-1), 2^(bits-1) - 1), scale = range / (2^(bits-1) - 1).
namespace pursuit::nn {

// How the range is chosen.
enum class WeightRange { minmax, mse };
inline std::vector<Choice<WeightRange>> choices_of(WeightRange) {
  return {{"minmax", WeightRange::minmax, "the largest |w|"},
          {"mse", WeightRange::mse, "of k (max|w| + 0.5) / 100, k = 1 ... 100, that of least squared error"}};
}

struct WeightOptions {
  int64_t bits = 8;
  WeightRange range = WeightRange::minmax;
  Granularity granularity = Granularity::channel;
};

struct CodedWeight {
  Tensor codes;  // i8, of the weight's shape
  Tensor scale;  // f32 [rows], equal ones for Granularity::tensor
};

// Of w [rows, ...], f32 on the CPU. A matrix has signed codes, also without negative entries: int8 products
// need them. Throws Error if an entry is not finite.
CodedWeight coded_weight(const Tensor& w, const WeightOptions& options);

// A tensor that is kept in f32, such as the gains of a norm, with one scale: its values on the grid. Without
// negative entries the codes are 0 ... 2^bits - 1.
Tensor rounded_weight(const Tensor& w, const WeightOptions& options);

}  // namespace pursuit::nn
