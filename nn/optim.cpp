#include "nn/optim.h"

#include <algorithm>
#include <cmath>

#include "engine/cpu/rows.h"
#include "engine/parallel.h"

namespace pursuit::nn {

bool decays_by_timm(const std::string& name, const Tensor& t) {
  return t.ndim() > 1 && name != "pos_embed" && name != "cls_token";
}

FlatParameters::FlatParameters(const std::vector<NamedTensor>& parameters,
                               const std::function<bool(const std::string&, const Tensor&)>& decays) {
  int64_t total = 0;
  for (const NamedTensor& p : parameters) {
    if (p.tensor->dtype() != DType::f32 || p.tensor->device().is_cuda())
      fail("optimizer", p.name + " is a " + p.tensor->str() + ", need f32 on the cpu");
    segments_.push_back({p, total, p.tensor->numel(), decays(p.name, *p.tensor)});
    total += p.tensor->numel();
  }
  {
    MemoryTag tag("weights");
    values = zeros({total});
  }
  MemoryTag tag("weight gradients");
  grads = zeros({total});
  for (const Segment& s : segments_) {
    Tensor& t = *s.parameter.tensor;
    const Shape strides = contiguous_strides(t.shape());
    Tensor home = values.view(t.shape(), strides, s.offset);
    copy_values(home, t);
    home.set_node(t.node());
    t = home;
    t.bind_grad(grads.view(t.shape(), strides, s.offset));
  }
}

void FlatParameters::zero_grad() {
  for (const Segment& s : segments_) s.parameter.tensor->zero_grad();
}

void FlatParameters::finish_grad() {
  for (const Segment& s : segments_)
    if (!s.parameter.tensor->grad().defined()) std::fill_n(grads.data<float>() + s.offset, s.count, 0.0f);
}

double FlatParameters::grad_norm() const {
  // Fixed blocks summed in order, so that the norm does not depend on the number of threads.
  constexpr int64_t block = 1 << 16;
  const int64_t n = grads.numel(), blocks = (n + block - 1) / block;
  std::vector<double> sums(static_cast<size_t>(blocks));
  parallel_for(blocks, 4, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b)
      sums[size_t(b)] =
          rows<float>().sum_squares(grads.data<float>() + b * block, std::min(block, n - b * block));
  });
  double sum = 0;
  for (double s : sums) sum += s;
  return std::sqrt(sum);
}

void FlatParameters::for_each_range(const std::function<void(int64_t, int64_t, bool)>& body) const {
  parallel_for(values.numel(), 1 << 14, [&](int64_t begin, int64_t end) {
    for (const Segment& s : segments_) {
      const int64_t from = std::max(begin, s.offset), to = std::min(end, s.offset + s.count);
      if (from < to) body(from, to - from, s.decays);
    }
  });
}

Optimizer::Optimizer(FlatParameters& parameters, const OptimizerConfig& config)
    : flat_(parameters), config_(config) {
  MemoryTag tag("optimizer");
  first_ = zeros(flat_.values.shape());
  if (config.kind == OptimizerConfig::Kind::adamw) second_ = zeros(flat_.values.shape());
}

void Optimizer::step(double lr, double grad_scale) {
  ++steps_;
  float *p = flat_.values.data<float>(), *g = flat_.grads.data<float>(), *m = first_.data<float>();
  flat_.for_each_range([&](int64_t at, int64_t n, bool decays) {
    const double decay = decays ? config_.weight_decay : 0;
    if (config_.kind == OptimizerConfig::Kind::adamw) {
      const AdamStep s{lr,
                       config_.beta1,
                       config_.beta2,
                       config_.eps,
                       decay,
                       1 - std::pow(config_.beta1, double(steps_)),
                       1 - std::pow(config_.beta2, double(steps_)),
                       grad_scale};
      rows<float>().adamw(p + at, g + at, m + at, second_.data<float>() + at, n, s);
    } else {
      rows<float>().sgd(p + at, g + at, m + at, n,
                        {lr, config_.momentum, decay, config_.nesterov, grad_scale});
    }
  });
}

std::vector<NamedTensor> Optimizer::state() {
  if (config_.kind == OptimizerConfig::Kind::adamw)
    return {{"optimizer.m", &first_}, {"optimizer.v", &second_}};
  return {{"optimizer.momentum", &first_}};
}

Ema::Ema(const FlatParameters& parameters, double decay) : flat_(parameters), decay_(decay) {
  MemoryTag tag("weights");
  values = empty_like(parameters.values);
  copy_values(values, parameters.values);
}

void Ema::update() {
  flat_.for_each_range([&](int64_t at, int64_t n, bool) {
    rows<float>().ema(values.data<float>() + at, flat_.values.data<float>() + at, n, decay_);
  });
}

void Ema::swap() {
  std::swap_ranges(values.data<float>(), values.data<float>() + values.numel(), flat_.values.data<float>());
}

}  // namespace pursuit::nn
