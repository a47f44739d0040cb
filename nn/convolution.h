#pragma once
#include "engine/ops.h"
#include "nn/module.h"

namespace pursuit::nn {

// A convolution of images [B, C, H, W], named as in PyTorch: weight [out, in / groups, kernel height, kernel
// width], bias [out] or undefined. Parameters are f32 and cast to x's dtype in forward. Initialised as in
// PyTorch, U(+-1 / sqrt(fan_in)) for both, by Init::pytorch of nn/init.h; other schemes go by the roles.
class Conv2d : public Callable<Conv2d> {
 public:
  Conv2d(int64_t in, int64_t out, Pair kernel, const ConvOptions& options = {}, bool with_bias = true,
         Role of_weight = Role::weight, Role of_bias = Role::bias);
  Tensor forward(const Tensor& x) const;
  Tensor weight, bias;

 private:
  ConvOptions options_;
};

// Pooling layers, for Sequential.
class MaxPool2d : public Callable<MaxPool2d> {
 public:
  explicit MaxPool2d(const MaxPoolOptions& options) : options_(options) {}
  Tensor forward(const Tensor& x) const { return max_pool2d(x, options_); }

 private:
  MaxPoolOptions options_;
};
class AvgPool2d : public Callable<AvgPool2d> {
 public:
  explicit AvgPool2d(const AvgPoolOptions& options) : options_(options) {}
  Tensor forward(const Tensor& x) const { return avg_pool2d(x, options_); }

 private:
  AvgPoolOptions options_;
};

}  // namespace pursuit::nn
