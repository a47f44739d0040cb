#pragma once
#include <algorithm>
#include <vector>

#include "engine/ops/quantized.h"
#include "nn/module.h"
#include "nn/quantization/config.h"
#include "nn/quantization/ranges.h"

namespace pursuit::nn {

// A place of a model where an activation is rounded to its grid, if the model is quantised. Its buffer
// `grid`, f32 [2], holds step and zero.
class Quantizer : public Module {
 public:
  // x on the grid; calibrating, x first enters the range. Of a model that is not quantised: x.
  Tensor operator()(const Tensor& x) const;
  // For an x that only int8 products read: these round it themselves.
  Tensor for_product(const Tensor& x) const;
  // Throws Error if the grid is none: the model has seen no batch, or its file is damaged.
  AffineGrid grid() const;

 protected:
  void on_quantize() override;

 private:
  Tensor grid_;
  mutable RunningRange range_;
};

// f(x) of a quantised model for some of x's samples at a time, which have `tokens` each, joined: what goes
// from one operator to the next stays in the cache. Calibrating, f sees the whole batch.
template <class F> Tensor in_parts(const Quantization& how, const Tensor& x, int64_t tokens, const F& f) {
  constexpr int64_t tokens_at_once = 1024;
  const int64_t samples = std::max<int64_t>(1, tokens_at_once / std::max<int64_t>(1, tokens));
  if (how.run == QuantizedRun::calibrating || x.size(0) <= samples) return f(x);
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < x.size(0); i += samples)
    parts.push_back(f(x.slice(0, i, std::min(i + samples, x.size(0)))));
  return concat(parts, 0);
}

// x codes^T scale + bias for an x on the grid of of_x: by products of integers, or simulated; on the grid of
// `result` unless it is null.
Tensor quantized_product(const Quantization& how, const Tensor& x, const Quantizer& of_x, const Tensor& codes,
                         const Tensor& scale, const Tensor& bias, const Quantizer* result = nullptr);

}  // namespace pursuit::nn
