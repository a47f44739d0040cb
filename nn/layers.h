#pragma once
#include "engine/ops.h"
#include "nn/generator.h"
#include "nn/module.h"
#include "nn/quantization/quantizer.h"

namespace pursuit::nn {

// Parameters are f32 and cast to x's dtype in forward. Those of norms stay f32, because rounding them would
// affect every token alike. The result has x's dtype, or the residual's, which may be f32 with a bf16 x.

// y = x weight^T + bias; weight [out, in], bias [out] or undefined.
class Linear : public Callable<Linear> {
 public:
  Linear(int64_t in, int64_t out, bool with_bias = true, Role of_weight = Role::weight,
         Role of_bias = Role::bias);
  Tensor forward(const Tensor& x, const Tensor& residual = {}) const;
  // Of a quantised model: x is on the grid of `of_x`, y on that of `result` unless it is null.
  Tensor quantized(const Tensor& x, const Quantizer& of_x, const Quantizer* result = nullptr) const;
  Int8Layer int8_layer(const Quantizer& of_x) const;  // its numbers, for operators of several layers
  // Keeps the weight f32 in a quantised model; call it before quantize.
  void stay_float() { stays_float_ = true; }
  Tensor float_weight() const;  // f32, also of a quantised model
  Tensor weight, bias;          // the weight of a quantised model is i8

 private:
  void on_quantize() override;
  Tensor scale_;  // of a quantised weight
  bool stays_float_ = false;
};

class LayerNorm : public Callable<LayerNorm> {
 public:
  explicit LayerNorm(int64_t dim, double eps = 1e-6);
  // `result`: dtype of the result, x's by default; may be bf16 for an f32 x.
  Tensor forward(const Tensor& x, std::optional<DType> result = {}) const;
  Tensor quantized(const Tensor& x) const { return output(forward(x)); }  // of a quantised model
  double eps() const { return eps_; }
  Tensor weight, bias;
  Quantizer output;

 private:
  void on_quantize() override;
  double eps_;
};

// residual + fc2(f(fc1(x))), fused; with `dropout` on f(fc1(x)) it is computed unfused.
class Mlp : public Callable<Mlp> {
 public:
  Mlp(int64_t dim, int64_t hidden, Activation f = Activation::gelu);
  Tensor forward(const Tensor& x, const Tensor& residual = {}, const Dropout& dropout = {}) const;
  // Of a quantised model, without the residual: x is on the grid of `of_x`.
  Tensor quantized(const Tensor& x, const Quantizer& of_x) const;
  Activation activation() const { return activation_; }
  Linear fc1, fc2;
  Quantizer active, output;  // after the activation; of fc2

 private:
  Activation activation_;
};

// The residual stream of a transformer: x, to which `branch`, if it is defined, is still to be added where
// `path` does not drop it; and to that sum, if there is an open MLP, the MLP of its norm. So one kernel can add a
// branch and make the next norm, or all of these. sum() and sum_and_norm() compute it all at every call.
struct ResidualStream {
  struct OpenMlp {
    const LayerNorm* norm;  // outlives the stream, as the MLP does
    const Mlp* mlp;
    Dropout path;
  };
  ResidualStream(Tensor stream, Tensor open_branch = {}, Dropout drop_path = {},
                 std::optional<OpenMlp> mlp = {})
      : x(std::move(stream)),
        branch(std::move(open_branch)),
        path(std::move(drop_path)),
        open_mlp(std::move(mlp)) {}
  Tensor sum() const;
  SumAndNorm sum_and_norm(const LayerNorm& norm, DType dtype) const;

  Tensor x, branch;
  Dropout path;
  std::optional<OpenMlp> open_mlp;  // only with a branch

 private:
  ResidualStream with_mlp_as_branch() const;
};

// A convolution with stride = kernel size: images [B, C, H, W], or their patches [B, H/p * W/p, C * p * p] as
// normalise_images gives them, to tokens [B, H/p * W/p, dim].
class PatchProjection : public Callable<PatchProjection> {
 public:
  PatchProjection(int64_t channels, int64_t patch, int64_t dim);
  Tensor forward(const Tensor& images) const;
  Tensor quantized(const Tensor& images) const;  // of a quantised model
  Tensor weight, bias;                           // [dim, channels, patch, patch], [dim]
  Quantizer input, output;

 private:
  void on_quantize() override;
  Tensor scale_;  // of a quantised weight
};

}  // namespace pursuit::nn
