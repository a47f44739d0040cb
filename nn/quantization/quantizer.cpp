#include "nn/quantization/quantizer.h"

#include <cmath>
#include <string>

#include "engine/core/shapes_only.h"

namespace pursuit::nn {

void Quantizer::on_quantize() { add_buffer("grid", grid_, zeros({2}), /*on_cpu*/ true); }

Tensor Quantizer::operator()(const Tensor& x) const {
  if (!quantization()) return x;
  if (quantization()->run == QuantizedRun::calibrating && !shapes_only()) {
    const int64_t bits = quantization()->config.activation_bits;
    const Tensor values = x.detach().to(DType::f32).to(cpu).contiguous();
    range_.add(batch_range({values.data<float>(), size_t(values.numel())}, quantization()->ranges, bits));
    const AffineGrid grid = asymmetric_grid(range_.value(), bits);
    copy_values(grid_, from_vector<float>({grid.step, float(grid.zero)}, {2}));
  }
  return fake_quantize(x, grid());
}

Tensor Quantizer::for_product(const Tensor& x) const {
  return quantization() && quantization()->run == QuantizedRun::integer ? x : (*this)(x);
}

AffineGrid Quantizer::grid() const {
  const int32_t levels = (1 << quantization()->config.activation_bits) - 1;
  if (shapes_only()) return {1, 0, levels};
  const float step = grid_.data<float>()[0], zero = grid_.data<float>()[1];
  if (!(step > 0) || !std::isfinite(step) || !(zero >= 0 && zero <= float(levels)) ||
      zero != std::floor(zero))
    fail("quantization", "a grid has step " + std::to_string(step) + " and zero point " +
                             std::to_string(zero) + ", need a positive step and a whole number of 0 to " +
                             std::to_string(levels) +
                             (step == 0 ? "; the model was not calibrated" : "; the file is damaged"));
  return {step, int32_t(zero), levels};
}

Tensor quantized_product(const Quantization& how, const Tensor& x, const Quantizer& of_x, const Tensor& codes,
                         const Tensor& scale, const Tensor& bias, const Quantizer* result) {
  if (how.run == QuantizedRun::integer)
    return int8_linear(x, {of_x.grid(), codes, scale, bias},
                       result ? std::optional(result->grid()) : std::nullopt);
  const Tensor y = linear(x, dequantize(codes, scale), bias);
  return result ? (*result)(y) : y;
}

}  // namespace pursuit::nn
