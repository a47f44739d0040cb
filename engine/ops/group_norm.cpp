#include "engine/operator/operator.h"
#include "engine/ops.h"
#include "engine/ops/channel_norm.h"

namespace pursuit {

// Statistics, weight and bias stay f32 (f64 for f64) whatever the dtype of x: bf16 has too few
// digits.
struct GroupNorm {
  static constexpr const char* name = "group_norm";
  int64_t groups = 1;
  double eps = 1e-5;
  Tensor x = {}, weight = {};
  Tensor statistics = {};                              // [2, B groups], mean and rstd
  DType of_weight = DType::f32, of_bias = DType::f32;  // as given
  bool has_bias = false;

  Tensor forward(const Tensor& in, const Tensor& w, const Tensor& b) {
    x = in.contiguous();
    const DType type = compute_type(x.dtype());
    const ChannelGroups of_x = groups_of_channels(x, groups);
    statistics = group_moments(name, x, of_x);
    invert_variances(name, statistics, eps);
    Tensor bias;
    if (w.defined()) weight = w.to(type).contiguous();
    if (b.defined()) bias = b.to(type).contiguous();
    of_weight = w.dtype();
    of_bias = b.dtype();
    has_bias = b.defined();
    return normalise_groups(name, x, of_x, statistics, weight, bias);
  }
  Grads backward(const Tensor& gy, Needs) {
    const Tensor g = gy.contiguous();
    const ChannelGroups of_x = groups_of_channels(x, groups);
    const Tensor of_rows = row_gradient_sums(name, x, g, of_x, statistics);
    const Tensor sums = group_gradient_sums(name, of_rows, of_x, weight);
    Grads grads(3);
    grads[0] = group_norm_gradient(name, x, g, of_x, statistics, weight, sums, double(of_x.numbers()));
    const Tensor of_parameters = parameter_gradients(name, of_rows, of_x, statistics);
    if (weight.defined()) grads[1] = of_parameters.select(0, 0).to(of_weight);
    if (has_bias) grads[2] = of_parameters.select(0, 1).to(of_bias);
    return grads;
  }
  Tensor reference(const Tensor& in, const Tensor& w, const Tensor& b) const {
    const Tensor rows = in.reshape({in.size(0), groups, groups_of_channels(in, groups).numbers()});
    const Tensor centred = rows - mean(rows, {-1}, true);
    const Tensor y = (centred / sqrt(mean(square(centred), {-1}, true) + eps)).reshape(in.shape());
    Shape along = {1, in.size(1)};
    for (int d = 2; d < in.ndim(); ++d) along.push_back(1);
    const Tensor scaled = w.defined() ? y * w.reshape(along) : y;
    return b.defined() ? scaled + b.reshape(along) : scaled;
  }
  static std::vector<Sample<GroupNorm>> samples() {
    return {{{2}, {{{3, 6, 5, 3}, -2, 2}, {{6}}, {{6}}}},
            {{1, 1e-3}, {{{2, 19, 33}, -2, 2}, {{19}}, {{19}}}},
            {{3}, {{{5, 33}, -2, 2}, {{33}}, {{33}}}},
            {{4}, {{{2, 4, 1032}, -2, 2}, {{4}}, {{4}}}},
            {{2}, {{{2, 4, 27, 19}, -2, 2}, left_out(), left_out()}},
            {{2}, {{{2, 4, 5}, -2, 2}, {{4}}, left_out()}},
            {{2}, {{{3, 4, 4, 4}, -2, 2}, wide({{4}}), wide({{4}})}},
            {{2}, {{{0, 4, 3}}, {{4}}, {{4}}}}};
  }
};
PURSUIT_OPERATOR(GroupNorm)

Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias, double eps) {
  require_defined("group_norm", {&x});
  const auto fits = [&](const Tensor& t) {
    return !t.defined() || (x.ndim() > 1 && t.shape() == Shape{x.size(1)} && t.device() == x.device() &&
                            fits_beside(t.dtype(), x.dtype()));
  };
  const auto text = [](const Tensor& t) { return t.defined() ? t.str() : std::string("none"); };
  if (x.ndim() < 2 || !fits(weight) || !fits(bias))
    fail("group_norm", "got x " + x.str() + ", weight " + text(weight) + ", bias " + text(bias) +
                           ", need [B, C, ...], [C], [C] of x's dtype or f32 beside bf16, on one device");
  if (groups < 1 || x.size(1) % groups || x.size(1) == 0)
    fail("group_norm", "got " + std::to_string(groups) + " groups of the channels of " + x.str() +
                           ", need a number that divides them");
  if (x.size(0) > 0 && x.numel() == 0)
    fail("group_norm", "got x " + x.str() + ", need a number in every group");
  return apply(GroupNorm{groups, eps}, x, weight, bias);
}

Tensor instance_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  require_defined("instance_norm", {&x});
  if (x.ndim() < 3) fail("instance_norm", "got x " + x.str() + ", need [B, C, ...] with positions");
  return group_norm(x, x.size(1), weight, bias, eps);
}

}  // namespace pursuit
