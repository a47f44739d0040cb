#pragma once
#include "engine/ops.h"
#include "nn/module.h"

// Norms beside LayerNorm (nn/layers.h). Their parameters stay f32, as its.
namespace pursuit::nn {

// Batch norm of images [B, C, H, W], with the names of PyTorch: weight and bias [C]; buffers running_mean and
// running_var f32 [C], num_batches_tracked i64 []. In training every forward pass takes the batch's
// statistics and moves the running ones towards them, as PyTorch's does: several passes for one step
// (accumulated batches, an attack's gradients) move them several times. In evaluation the running ones are
// used and stay.
class BatchNorm2d : public Callable<BatchNorm2d> {
 public:
  explicit BatchNorm2d(int64_t channels, double eps = 1e-5, double momentum = 0.1);
  Tensor forward(const Tensor& x) const;
  Tensor weight, bias, running_mean, running_var, num_batches_tracked;

 private:
  double eps_, momentum_;
};

// Of x [B, C, ...], over groups of neighbouring channels; weight and bias [C].
class GroupNorm : public Callable<GroupNorm> {
 public:
  GroupNorm(int64_t groups, int64_t channels, double eps = 1e-5);
  Tensor forward(const Tensor& x) const;
  Tensor weight, bias;

 private:
  int64_t groups_;
  double eps_;
};

// Of each picture and channel of [B, C, H, W]; weight and bias [C] with `affine`, else undefined, as
// PyTorch's default. Keeps no running statistics.
class InstanceNorm2d : public Callable<InstanceNorm2d> {
 public:
  explicit InstanceNorm2d(int64_t channels, double eps = 1e-5, bool affine = false);
  Tensor forward(const Tensor& x) const;
  Tensor weight, bias;

 private:
  int64_t channels_;
  double eps_;
};

// Of the last dimension; weight [dim].
class RmsNorm : public Callable<RmsNorm> {
 public:
  explicit RmsNorm(int64_t dim, double eps = 1e-6);
  // `result` is x's dtype, also where it is not given, or bf16 of an f32 x.
  Tensor forward(const Tensor& x, std::optional<DType> result = {}) const;
  Tensor weight;

 private:
  double eps_;
};

}  // namespace pursuit::nn
