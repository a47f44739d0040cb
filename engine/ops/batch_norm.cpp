#include <utility>

#include "engine/distributed/communicator.h"
#include "engine/operator/for_each.h"
#include "engine/operator/operator.h"
#include "engine/ops.h"
#include "engine/ops/channel_norm.h"

namespace pursuit {

namespace {

// Updates the running statistics from this batch's moments over `numbers` values: running <- (1 - momentum)
// running + momentum batch, with the unbiased variance, and increments the batch count.
template <class R> struct Keep {
  const R* moments;
  int64_t channels;
  double momentum, numbers;
  float *mean, *variance;
  int64_t* batches;
  HD void operator()(int64_t c) const {
    const double unbiased = double(moments[channels + c]) * (numbers / (numbers - 1));
    mean[c] = float((1 - momentum) * double(mean[c]) + momentum * double(moments[c]));
    variance[c] = float((1 - momentum) * double(variance[c]) + momentum * unbiased);
    if (c == 0 && batches) ++*batches;
  }
};

// Gathers one tensor from each rank, [ranks, ...].
Tensor of_all_ranks(distributed::Communicator& ranks, const Tensor& mine) {
  Shape shape = mine.shape();
  shape.insert(0, ranks.size());
  Tensor all = empty(shape, mine.dtype(), mine.device());
  if (!shapes_only()) ranks.all_gather(mine, all);
  return all;
}

}  // namespace

// Statistics, weight and bias stay f32 (f64 for f64) whatever the dtype of x: bf16 has too few
// digits.
struct BatchNorm {
  static constexpr const char* name = "batch_norm";
  double eps = 1e-5;
  RunningStatistics running = {};
  distributed::Communicator* ranks = nullptr;  // null: statistics of this rank only
  Tensor x = {}, weight = {};
  Tensor statistics = {};                              // [2, C], mean and rstd
  DType of_weight = DType::f32, of_bias = DType::f32;  // as given
  bool has_bias = false;
  bool of_batch = true;  // false: running statistics, which are constants

  double numbers(const ChannelGroups& channels) const {
    return double(channels.numbers()) * (ranks ? ranks->size() : 1);
  }

  // All ranks have the same number of values, so the total variance is the mean of theirs about it.
  Tensor moments_of_batch(const ChannelGroups& channels) const {
    const Tensor mine = group_moments(name, x, channels);
    if (!ranks) return mine;
    const Tensor all = of_all_ranks(*ranks, mine);
    const Tensor means = all.select(1, 0), variances = all.select(1, 1), centre = mean(means, {0});
    return stack({centre, mean(variances + square(means - centre), {0})}, 0);
  }
  void keep_running(const ChannelGroups& channels, const Tensor& moments) const {
    const Tensor &mean = running.mean, &variance = running.variance, &batches = running.batches;
    dispatch(x, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      using R = compute_t<T>;
      for_each(dev, layout_of(mean.shape(), mean),
               Keep<R>{moments.data<R>(), channels.channels, running.momentum, numbers(channels),
                       mean.data<float>(), variance.data<float>(),
                       batches.defined() ? batches.data<int64_t>() : nullptr});
    });
    for (const Tensor& written : {mean, variance, batches})
      if (written.defined()) written.bump_version(name);
  }

  Tensor forward(const Tensor& in, const Tensor& w, const Tensor& b, const Tensor& mean,
                 const Tensor& variance) {
    x = in.contiguous();
    const DType type = compute_type(x.dtype());
    const ChannelGroups channels = channels_of(x);
    of_batch = !mean.defined();
    statistics = of_batch ? moments_of_batch(channels) : stack({mean.to(type), variance.to(type)}, 0);
    if (running.mean.defined()) keep_running(channels, statistics);
    running = {};
    invert_variances(name, statistics, eps);
    Tensor bias;
    if (w.defined()) weight = w.to(type).contiguous();
    if (b.defined()) bias = b.to(type).contiguous();
    of_weight = w.dtype();
    of_bias = b.dtype();
    has_bias = b.defined();
    return normalise_groups(name, x, channels, statistics, weight, bias);
  }
  Grads backward(const Tensor& gy, Needs) {
    const Tensor g = gy.contiguous();
    const ChannelGroups channels = channels_of(x);
    const Tensor of_rows = row_gradient_sums(name, x, g, channels, statistics);
    Grads grads(5);
    Tensor sums = of_batch ? group_gradient_sums(name, of_rows, channels, weight) : zeros_like(statistics);
    if (of_batch && ranks) sums = sum(of_all_ranks(*ranks, sums), {0});
    grads[0] =
        group_norm_gradient(name, x, g, channels, statistics, weight, sums, of_batch ? numbers(channels) : 1);
    const Tensor of_parameters = parameter_gradients(name, of_rows, channels, statistics);
    if (weight.defined()) grads[1] = of_parameters.select(0, 0).to(of_weight);
    if (has_bias) grads[2] = of_parameters.select(0, 1).to(of_bias);
    return grads;
  }
  Tensor reference(const Tensor& in, const Tensor& w, const Tensor& b, const Tensor& of_mean,
                   const Tensor& of_variance) const {
    std::vector<int> others;
    Shape along = {1, in.size(1)};
    for (int d = 0; d < in.ndim(); ++d)
      if (d != 1) others.push_back(d);
    for (int d = 2; d < in.ndim(); ++d) along.push_back(1);
    const Tensor centre = of_mean.defined() ? of_mean.reshape(along) : mean(in, others, true);
    const Tensor variance =
        of_mean.defined() ? of_variance.reshape(along) : mean(square(in - centre), others, true);
    const Tensor y = (in - centre) / sqrt(variance + eps);
    const Tensor scaled = w.defined() ? y * w.reshape(along) : y;
    return b.defined() ? scaled + b.reshape(along) : scaled;
  }
  static std::vector<Sample<BatchNorm>> samples() {
    const auto of_batch = [](const Input& x, const Input& w, const Input& b) {
      return std::vector<Input>{x, w, b, left_out(), left_out()};
    };
    const auto of_running = [](const Input& x, const Input& w, const Input& b) {
      const Shape channels = {x.shape[1]};
      return std::vector<Input>{x, w, b, wide(constant({channels})), wide(constant({channels, 0.5, 2}))};
    };
    return {{{}, of_batch({{4, 3, 5, 3}, -2, 2}, {{3}}, {{3}})},
            {{1e-3}, of_batch({{2, 19, 33}, -2, 2}, {{19}}, {{19}})},
            {{}, of_batch({{33, 7}, -2, 2}, {{7}}, {{7}})},
            {{}, of_batch({{2, 2, 1032}, -2, 2}, {{2}}, {{2}})},
            {{}, of_batch({{2, 2, 27, 19}, -2, 2}, left_out(), left_out())},
            {{}, of_batch({{3, 4, 5}, -2, 2}, left_out(), {{4}})},
            {{}, of_batch({{3, 4, 4, 4}, -2, 2}, wide({{4}}), wide({{4}}))},
            {{}, of_running({{4, 3, 5, 3}, -2, 2}, {{3}}, {{3}})},
            {{1e-3}, of_running({{2, 5, 1030}, -2, 2}, wide({{5}}), wide({{5}}))},
            {{}, of_running({{2, 3, 8}, -2, 2}, left_out(), left_out())},
            {{}, of_running({{0, 3, 4}}, {{3}}, {{3}})}};
  }
};
PURSUIT_OPERATOR(BatchNorm)

Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const RunningStatistics& running,
                  bool training, double eps, distributed::Communicator* ranks) {
  require_defined("batch_norm", {&x});
  const auto of_channels = [&](const Tensor& t) {
    return x.ndim() > 1 && t.shape() == Shape{x.size(1)} && t.device() == x.device();
  };
  const auto fits = [&](const Tensor& t) {
    return !t.defined() || (of_channels(t) && fits_beside(t.dtype(), x.dtype()));
  };
  const auto is_running = [&](const Tensor& t) {
    return of_channels(t) && t.dtype() == DType::f32 && t.is_contiguous();
  };
  const auto text = [](const Tensor& t) { return t.defined() ? t.str() : std::string("none"); };
  const bool has_running = running.mean.defined();
  if (x.ndim() < 2 || !fits(weight) || !fits(bias))
    fail("batch_norm", "got x " + x.str() + ", weight " + text(weight) + ", bias " + text(bias) +
                           ", need [B, C, ...], [C], [C] of x's dtype or f32 beside bf16, on one device");
  if (has_running != running.variance.defined() ||
      (has_running && (!is_running(running.mean) || !is_running(running.variance))))
    fail("batch_norm", "got x " + x.str() + ", a running mean " + text(running.mean) + " and variance " +
                           text(running.variance) + ", need f32 [C], contiguous, beside x");
  if (running.batches.defined() && (running.batches.dtype() != DType::i64 || running.batches.numel() != 1 ||
                                    running.batches.device() != x.device()))
    fail("batch_norm", "got " + running.batches.str() + " as the number of batches, need i64 [] beside x");
  if (!training) {
    if (!has_running) fail("batch_norm", "evaluation needs running statistics; none were given");
    return apply(BatchNorm{eps}, x, weight, bias, running.mean, running.variance);
  }
  const int64_t of_ranks = ranks ? ranks->size() : 1;
  if (x.size(1) > 0 && x.numel() / x.size(1) * of_ranks < 2)
    fail("batch_norm", "got x " + x.str() + ", need more than one number a channel to train");
  return apply(BatchNorm{eps, running, of_ranks > 1 ? ranks : nullptr}, x, weight, bias, Tensor(), Tensor());
}

}  // namespace pursuit
