#include "nn/layers.h"

#include "nn/observer.h"

namespace pursuit::nn {

Linear::Linear(int64_t in, int64_t out, bool with_bias, Role of_weight, Role of_bias) {
  add_parameter("weight", weight, {out, in}, {of_weight, in});
  if (with_bias) add_parameter("bias", bias, {out}, {of_bias, in});
}

Tensor Linear::forward(const Tensor& x, const Tensor& residual) const {
  return linear(x, float_weight().to(x.dtype()), bias.defined() ? bias.to(x.dtype()) : Tensor(), residual);
}

Tensor Linear::quantized(const Tensor& x, const Quantizer& of_x, const Quantizer* result) const {
  if (scale_.defined()) return quantized_product(*quantization(), x, of_x, weight, scale_, bias, result);
  return result ? (*result)(forward(x)) : forward(x);
}

Int8Layer Linear::int8_layer(const Quantizer& of_x) const { return {of_x.grid(), weight, scale_, bias}; }

Tensor Linear::float_weight() const { return scale_.defined() ? dequantize(weight, scale_) : weight; }

void Linear::on_quantize() {
  if (!stays_float_) code_parameter("weight", weight, scale_);
}

LayerNorm::LayerNorm(int64_t dim, double eps) : eps_(eps) {
  add_parameter("weight", weight, {dim}, {Role::norm_weight});
  add_parameter("bias", bias, {dim}, {Role::norm_bias});
  add_module("output", output);
}

void LayerNorm::on_quantize() { round_parameter(weight); }

Tensor LayerNorm::forward(const Tensor& x, std::optional<DType> result) const {
  const DType t = compute_type(x.dtype());
  return layer_norm(x, weight.to(t), bias.to(t), eps_, result);
}

Mlp::Mlp(int64_t dim, int64_t hidden, Activation f)
    : fc1(dim, hidden), fc2(hidden, dim, true, Role::mlp_out_weight), activation_(f) {
  add_module("fc1", fc1);
  add_module("fc2", fc2);
  add_module("hidden", active);
  add_module("output", output);
}

Tensor Mlp::forward(const Tensor& x, const Tensor& residual, const Dropout& dropout) const {
  const DType t = x.dtype();
  Observer<Mlp>::show(*this, [&] {
    return mlp(x, fc1.weight.to(t), fc1.bias.to(t), fc2.weight.to(t), fc2.bias.to(t), {}, activation_);
  });
  if (dropout.rate > 0) {
    const Tensor hidden = fc1(x);
    return fc2(dropout(activation_ == Activation::relu ? relu(hidden) : gelu(hidden)), residual);
  }
  return mlp(x, fc1.weight.to(t), fc1.bias.to(t), fc2.weight.to(t), fc2.bias.to(t), residual, activation_);
}

namespace {

NormParameters parameters_of(const LayerNorm& norm, DType dtype) {
  return {norm.weight.to(dtype), norm.bias.to(dtype), norm.eps()};
}

DropOptions options_of(const Dropout& d) { return {d.rate, d.seed, d.stream, d.counter}; }

}  // namespace

ResidualStream ResidualStream::with_mlp_as_branch() const {
  const auto [stream, normed] = ResidualStream(x, branch, path).sum_and_norm(*open_mlp->norm, branch.dtype());
  return {stream, (*open_mlp->mlp)(normed), open_mlp->path};
}

Tensor ResidualStream::sum() const {
  if (open_mlp) return with_mlp_as_branch().sum();
  return branch.defined() ? drop_path(branch, path.rate, path.seed, path.stream, path.counter, x) : x;
}

SumAndNorm ResidualStream::sum_and_norm(const LayerNorm& norm, DType dtype) const {
  if (!branch.defined() || branch.dtype() != dtype) {
    const Tensor y = sum();
    return {y, norm(y, dtype)};
  }
  const DType t = compute_type(dtype);
  if (!open_mlp) return add_norm(branch, x, parameters_of(norm, t), options_of(path));
  const Mlp& m = *open_mlp->mlp;
  const Tensor w1 = m.fc1.weight.to(dtype), b1 = m.fc1.bias.to(dtype), w2 = m.fc2.weight.to(dtype),
               b2 = m.fc2.bias.to(dtype);
  const NormParameters before = parameters_of(*open_mlp->norm, t);
  Observer<Mlp>::show(m, [&] {
    return mlp(add_norm(branch, x, before, options_of(path)).norm, w1, b1, w2, b2, {}, m.activation());
  });
  return residual_mlp(branch, x, before, options_of(path), w1, b1, w2, b2, m.activation(),
                      parameters_of(norm, t), options_of(open_mlp->path));
}

Tensor Mlp::quantized(const Tensor& x, const Quantizer& of_x) const {
  const auto simulated = [&] {
    const Tensor before = fc1.quantized(x, of_x);
    return fc2.quantized(active(activation_ == Activation::relu ? relu(before) : gelu(before)), active,
                         &output);
  };
  const Tensor y = quantization()->run == QuantizedRun::integer
                       ? int8_mlp(x, fc1.int8_layer(of_x), activation_, fc2.int8_layer(active), output.grid())
                       : simulated();
  Observer<Mlp>::show(*this, [&] { return y; });
  return y;
}

PatchProjection::PatchProjection(int64_t channels, int64_t patch, int64_t dim) {
  const int64_t fan_in = channels * patch * patch;
  add_parameter("weight", weight, {dim, channels, patch, patch}, {Role::weight, fan_in});
  add_parameter("bias", bias, {dim}, {Role::bias, fan_in});
  add_module("input", input);
  add_module("output", output);
}

void PatchProjection::on_quantize() { code_parameter("weight", weight, scale_); }

Tensor PatchProjection::quantized(const Tensor& images) const {
  const int64_t channels = weight.size(1), p = weight.size(2), length = channels * p * p;
  Tensor patches = input.for_product(images);
  if (images.ndim() == 4) {
    const int64_t batch = images.size(0), down = images.size(2) / p, across = images.size(3) / p;
    patches = patches.reshape({batch, channels, down, p, across, p})
                  .permute({0, 2, 4, 1, 3, 5})
                  .reshape({batch, down * across, length});
  }
  return quantized_product(*quantization(), patches, input, weight.reshape({weight.size(0), length}), scale_,
                           bias, &output);
}

Tensor PatchProjection::forward(const Tensor& images) const {
  const Tensor w = weight.to(images.dtype()), b = bias.to(images.dtype());
  return images.ndim() == 3 ? linear(images, w.reshape({w.size(0), images.size(2)}), b)
                            : patchify(images, w, b);
}

}  // namespace pursuit::nn
