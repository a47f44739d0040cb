#include "nn/norms.h"

namespace pursuit::nn {

namespace {

void require_images(const char* name, const Tensor& x, int64_t channels) {
  if (x.ndim() != 4 || x.size(1) != channels)
    fail(name, "got " + x.str() + ", need images [B, " + std::to_string(channels) + ", H, W]");
}

}  // namespace

BatchNorm2d::BatchNorm2d(int64_t channels, double eps, double momentum) : eps_(eps), momentum_(momentum) {
  add_parameter("weight", weight, {channels}, {Role::norm_weight});
  add_parameter("bias", bias, {channels}, {Role::norm_bias});
  add_buffer("running_mean", running_mean, zeros({channels}));
  add_buffer("running_var", running_var, ones({channels}));
  add_buffer("num_batches_tracked", num_batches_tracked, zeros({}, DType::i64));
}

Tensor BatchNorm2d::forward(const Tensor& x) const {
  require_images("batch_norm", x, weight.size(0));
  const DType t = compute_type(x.dtype());
  return batch_norm(x, weight.to(t), bias.to(t), {running_mean, running_var, num_batches_tracked, momentum_},
                    training(), eps_, ranks());
}

GroupNorm::GroupNorm(int64_t groups, int64_t channels, double eps) : groups_(groups), eps_(eps) {
  if (groups < 1 || channels % groups)
    fail("group_norm", "got " + std::to_string(groups) + " groups of " + std::to_string(channels) +
                           " channels, need a number that divides them");
  add_parameter("weight", weight, {channels}, {Role::norm_weight});
  add_parameter("bias", bias, {channels}, {Role::norm_bias});
}

Tensor GroupNorm::forward(const Tensor& x) const {
  const DType t = compute_type(x.dtype());
  return group_norm(x, groups_, weight.to(t), bias.to(t), eps_);
}

InstanceNorm2d::InstanceNorm2d(int64_t channels, double eps, bool affine) : channels_(channels), eps_(eps) {
  if (!affine) return;
  add_parameter("weight", weight, {channels}, {Role::norm_weight});
  add_parameter("bias", bias, {channels}, {Role::norm_bias});
}

Tensor InstanceNorm2d::forward(const Tensor& x) const {
  require_images("instance_norm", x, channels_);
  const DType t = compute_type(x.dtype());
  return weight.defined() ? instance_norm(x, weight.to(t), bias.to(t), eps_) : instance_norm(x, {}, {}, eps_);
}

RmsNorm::RmsNorm(int64_t dim, double eps) : eps_(eps) {
  add_parameter("weight", weight, {dim}, {Role::norm_weight});
}

Tensor RmsNorm::forward(const Tensor& x, std::optional<DType> result) const {
  return rms_norm(x, weight.to(compute_type(x.dtype())), eps_, result);
}

}  // namespace pursuit::nn
