#pragma once
#include "engine/ops.h"
#include "nn/module.h"

// Norms other than LayerNorm (nn/layers.h). Their parameters stay f32, too.
namespace pursuit::nn {

// Batch norm of images [B, C, H, W], named as in PyTorch: weight and bias [C]; buffers running_mean and
// running_var f32 [C], num_batches_tracked i64 []. In training every forward pass normalises with the batch's
// statistics and updates the running ones, as in PyTorch: several passes per step (gradient accumulation, an
// attack's gradients) update them several times. In evaluation the running statistics are used and not
// changed.
class BatchNorm2d : public Callable<BatchNorm2d> {
 public:
  explicit BatchNorm2d(int64_t channels, double eps = 1e-5, double momentum = 0.1);
  Tensor forward(const Tensor& x) const;
  Tensor weight, bias, running_mean, running_var, num_batches_tracked;

 private:
  double eps_, momentum_;
};

// Group norm of x [B, C, ...], over groups of adjacent channels; weight and bias [C].
class GroupNorm : public Callable<GroupNorm> {
 public:
  GroupNorm(int64_t groups, int64_t channels, double eps = 1e-5);
  Tensor forward(const Tensor& x) const;
  Tensor weight, bias;

 private:
  int64_t groups_;
  double eps_;
};

// Instance norm of x [B, C, H, W], per image and channel; weight and bias [C] with `affine`, else undefined,
// as PyTorch's default. Has no running statistics.
class InstanceNorm2d : public Callable<InstanceNorm2d> {
 public:
  explicit InstanceNorm2d(int64_t channels, double eps = 1e-5, bool affine = false);
  Tensor forward(const Tensor& x) const;
  Tensor weight, bias;

 private:
  int64_t channels_;
  double eps_;
};

// RMS norm over the last dimension; weight [dim].
class RmsNorm : public Callable<RmsNorm> {
 public:
  explicit RmsNorm(int64_t dim, double eps = 1e-6);
  // `result`: dtype of the result, x's by default; may be bf16 for an f32 x.
  Tensor forward(const Tensor& x, std::optional<DType> result = {}) const;
  Tensor weight;

 private:
  double eps_;
};

}  // namespace pursuit::nn
