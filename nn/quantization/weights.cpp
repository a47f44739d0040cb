#include "nn/quantization/weights.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "engine/base/error.h"
#include "engine/cpu/parallel.h"

namespace pursuit::nn {

namespace {

// Codes lowest ... highest, of which `highest` stands for the range.
struct Codes {
  int lowest, highest;

  float scale_of(double range) const { return float(std::max(range, 1e-8) / highest); }
  int code(float w, float scale) const {
    return int(std::clamp(std::nearbyint(w / scale), float(lowest), float(highest)));
  }
};

Codes signed_codes(int64_t bits) { return {-(1 << (bits - 1)), (1 << (bits - 1)) - 1}; }

// Of all entries, which share it.
float scale_of(std::span<const float> w, const Codes& codes, WeightRange range) {
  double largest = 0;
  for (const float v : w) largest = std::max(largest, std::abs(double(v)));
  if (range == WeightRange::minmax) return codes.scale_of(largest);
  constexpr int candidates = 100;
  constexpr double margin = 0.5;
  double best = INFINITY;
  float chosen = 1;
  for (int k = 1; k <= candidates; ++k) {
    const float scale = codes.scale_of(k * (largest + margin) / candidates);
    double error = 0;
    for (const float v : w) {
      const double difference = double(scale) * codes.code(v, scale) - double(v);
      error += difference * difference;
    }
    if (error < best) best = error, chosen = scale;
  }
  return chosen;
}

Tensor checked(const Tensor& w) {
  const Tensor x = w.detach().contiguous();
  if (x.dtype() != DType::f32 || x.ndim() < 1 || x.numel() == 0)
    fail("quantize", "got a weight " + w.str() + ", need f32 [rows, ...]");
  const float* values = x.data<float>();
  if (!std::all_of(values, values + x.numel(), [](float v) { return std::isfinite(v); }))
    fail("quantize", "a weight is not finite; the model's training has diverged");
  return x;
}

}  // namespace

CodedWeight coded_weight(const Tensor& w, const WeightOptions& o) {
  const Tensor x = checked(w);
  const int64_t rows = x.size(0), n = x.numel() / rows;
  const CodedWeight coded{empty(x.shape(), DType::i8), empty({rows}, DType::f32)};
  const Codes codes = signed_codes(o.bits);
  const float* const values = x.data<float>();
  const bool per_row = o.granularity == Granularity::channel;
  const float of_all = per_row ? 0 : scale_of({values, size_t(x.numel())}, codes, o.range);
  parallel_for(rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float* const row = values + i * n;
      const float scale = per_row ? scale_of({row, size_t(n)}, codes, o.range) : of_all;
      coded.scale.data<float>()[i] = scale;
      for (int64_t j = 0; j < n; ++j)
        coded.codes.data<int8_t>()[i * n + j] = int8_t(codes.code(row[j], scale));
    }
  });
  return coded;
}

Tensor rounded_weight(const Tensor& w, const WeightOptions& o) {
  const Tensor x = checked(w), y = empty_like(x);
  const std::span<const float> values(x.data<float>(), size_t(x.numel()));
  const bool negative = std::any_of(values.begin(), values.end(), [](float v) { return v < 0; });
  const Codes codes = negative ? signed_codes(o.bits) : Codes{0, (1 << o.bits) - 1};
  const float scale = scale_of(values, codes, o.range);
  std::transform(values.begin(), values.end(), y.data<float>(),
                 [&](float v) { return scale * float(codes.code(v, scale)); });
  return y;
}

}  // namespace pursuit::nn
