#pragma once
#include "engine/core/tensor.h"
#include "engine/sizes/channel_groups.h"

// Building blocks of batch norm and group norm.
namespace pursuit {

ChannelGroups channels_of(const Tensor& x);
ChannelGroups groups_of_channels(const Tensor& x, int64_t groups_of_sample);

// The functions below are kernels of an operator `name`, without autograd. x is contiguous, f32, bf16 or (on
// the CPU) f64; tensors of other shapes have the compute dtype; weight and bias [C] may be undefined. All
// sums have a fixed order.

// Mean and biased variance of every group, [2, groups]; then the conversion in place to mean and rstd = 1 /
// sqrt(variance + eps), the `statistics` below.
Tensor group_moments(const char* name, const Tensor& x, const ChannelGroups& groups);
void invert_variances(const char* name, const Tensor& moments, double eps);
// y = (x - mean) rstd weight + bias.
Tensor normalise_groups(const char* name, const Tensor& x, const ChannelGroups& groups,
                        const Tensor& statistics, const Tensor& weight, const Tensor& bias);
// With d = x - mean, [2, rows]: the sums of gy and of gy d over each row.
Tensor row_gradient_sums(const char* name, const Tensor& x, const Tensor& gy, const ChannelGroups& groups,
                         const Tensor& statistics);
// The gradients of weight and bias, [2, C], from those sums; and the sums of weight gy and of weight gy d
// over each group, [2, groups], from which the statistics' part of x's gradient follows.
Tensor parameter_gradients(const char* name, const Tensor& row_sums, const ChannelGroups& groups,
                           const Tensor& statistics);
Tensor group_gradient_sums(const char* name, const Tensor& row_sums, const ChannelGroups& groups,
                           const Tensor& weight);
// With these sums g and gd of a group whose statistics are over `numbers` elements:
// gx = rstd (weight gy - g / numbers - d rstd^2 gd / numbers).
Tensor group_norm_gradient(const char* name, const Tensor& x, const Tensor& gy, const ChannelGroups& groups,
                           const Tensor& statistics, const Tensor& weight, const Tensor& sums,
                           double numbers);

}  // namespace pursuit
