#include "nn/optim.h"

#include <algorithm>
#include <cmath>

#include "engine/cpu/rows.h"
#include "engine/optim.h"
#include "engine/parallel.h"
#include "engine/shapes_only.h"
#include "nn/lookups.h"

namespace pursuit::nn {

bool decays_by_timm(const std::string& name, const Tensor& t) {
  return t.ndim() > 1 && !name.ends_with("pos_embed") && !name.ends_with("cls_token") &&
         !name.ends_with("cls_emb");
}

std::vector<int64_t> flat_offsets(const std::vector<NamedTensor>& parameters) {
  constexpr int64_t alignment = 8;  // 16 bytes of bf16, which kernels read at once
  std::vector<int64_t> offsets;
  int64_t end = 0;
  for (const NamedTensor& p : parameters) {
    offsets.push_back((end + alignment - 1) / alignment * alignment);
    end = offsets.back() + p.tensor->numel();
  }
  offsets.push_back(end);
  return offsets;
}

FlatParameters::FlatParameters(const std::vector<NamedTensor>& parameters,
                               const std::function<bool(const std::string&, const Tensor&)>& decays_by,
                               DType computes_in) {
  const std::vector<int64_t> offsets = flat_offsets(parameters);
  const int64_t total = offsets.back();
  const Device device = parameters.empty() ? cpu : parameters[0].tensor->device();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const NamedTensor& p = parameters[i];
    if (p.tensor->dtype() != DType::f32 || p.tensor->device() != device)
      fail("optimizer", p.name + " is a " + p.tensor->str() + ", need f32 on " + device.name());
    segments_.push_back({p, offsets[i], p.tensor->numel(), decays_by(p.name, *p.tensor)});
  }
  {
    MemoryTag tag("weights");
    values = zeros({total}, DType::f32, device);
    if (computes_in != DType::f32) copy = zeros({total}, computes_in, device);
  }
  MemoryTag tag("weight gradients");
  grads = zeros({total}, DType::f32, device);
  std::vector<uint8_t> flags(on_gpu() && !shapes_only() ? size_t(total) : 0);
  for (const Segment& s : segments_) {
    Tensor& t = *s.parameter.tensor;
    const Shape strides = contiguous_strides(t.shape());
    Tensor home = values.view(t.shape(), strides, s.offset);
    copy_values(home, t);
    home.set_node(t.node());
    t = home;
    // On a GPU one kernel gathers all gradients in the end: a copy for each would cost a launch for each.
    if (!on_gpu()) t.bind_grad(grads.view(t.shape(), strides, s.offset));
    t.requires_grad();
    if (copy.defined()) t.bind_copy(copy.view(t.shape(), strides, s.offset));
    if (!flags.empty()) std::fill_n(flags.begin() + s.offset, s.count, uint8_t(s.decays));
  }
  if (!flags.empty()) decays = from_vector(flags, {total}, device);
  refresh();
}

std::vector<std::pair<std::string, Tensor>> FlatParameters::named(const Tensor& buffer) const {
  std::vector<std::pair<std::string, Tensor>> parts;
  for (const Segment& s : segments_) {
    const Shape& shape = s.parameter.tensor->shape();
    parts.emplace_back(s.parameter.name, buffer.view(shape, contiguous_strides(shape), s.offset));
  }
  return parts;
}

void FlatParameters::zero_grad() {
  for (const Segment& s : segments_) s.parameter.tensor->zero_grad();
  finished_at_ = -1;
}

int64_t FlatParameters::arrivals() const {
  int64_t sum = 0;
  for (const Segment& s : segments_) sum += s.parameter.tensor->node()->arrivals;
  return sum;
}

bool FlatParameters::finished() const { return finished_at_ == arrivals(); }

std::vector<FlatPart> FlatParameters::parts(size_t first, size_t last) const {
  std::vector<FlatPart> parts;
  for (size_t i = first; i < last; ++i)
    parts.push_back({segments_[i].parameter.tensor->grad(), segments_[i].offset, segments_[i].count});
  return parts;
}

Lookups* FlatParameters::lookups(size_t i) const {
  Lookups* lookups = segments_[i].parameter.lookups;
  return lookups && lookups->apart() ? lookups : nullptr;
}

void FlatParameters::finish_grad() {
  for (size_t i = 0; i < size(); ++i)
    if (lookups(i))
      fail("optimizer", "the lookups of " + segments_[i].parameter.name +
                            " are kept apart, for steps of several batches: use zero_sum and RankGradients");
  finished_at_ = arrivals();
  if (on_gpu()) return gather(parts(0, size()), grads);
  for (const FlatPart& p : parts(0, size()))
    if (!p.tensor.defined()) std::fill_n(grads.data<float>() + p.at, p.count, 0.0f);
}

void FlatParameters::zero_sum() {
  zero_grad();
  for (size_t i = 0; i < size(); ++i)
    if (Lookups* apart = lookups(i)) apart->clear();
  if (on_gpu()) copy_values(grads, zeros({1}, DType::f32, grads.device()).expand(grads.shape()));
}

void FlatParameters::add_grad(size_t first, size_t last) {
  const std::vector<FlatPart> parts = this->parts(first, last);
  if (on_gpu()) {
    gather(parts, grads, true);
    for (size_t i = first; i < last; ++i) segments_[i].parameter.tensor->zero_grad();
  } else {  // there they are added where they arrive
    for (const FlatPart& p : parts)
      if (!p.tensor.defined()) std::fill_n(grads.data<float>() + p.at, p.count, 0.0f);
  }
  finished_at_ = arrivals();
}

void FlatParameters::refresh() {
  if (copy.defined()) copy_values(copy, values);
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
  first_ = zeros_like(flat_.values);
  if (config.kind == OptimizerConfig::Kind::adamw) second_ = zeros_like(flat_.values);
  if (!flat_.on_gpu()) return;
  numbers_ = zeros({4}, DType::f32, flat_.values.device());
  factor_ = zeros({}, DType::f32, flat_.values.device());
}

void Optimizer::begin(double lr) {
  ++steps_;
  lr_ = lr;
  if (flat_.on_gpu()) write_step(numbers_, steps_, lr, config_.beta1, config_.beta2, config_.weight_decay);
}

void Optimizer::update(const Tensor& weight) {
  if (!flat_.finished()) flat_.finish_grad();
  flat_.on_gpu() ? update_on_gpu(weight) : update_on_cpu(weight.defined() ? weight.item() : 1);
  for (const Tensor& written : {flat_.values, flat_.copy}) written.bump_version("an optimizer");
}

void Optimizer::update_on_gpu(const Tensor& weight) {
  const bool scaled = config_.clip_norm > 0 || weight.defined();
  if (scaled) gradient_factor(flat_.grads, config_.clip_norm, weight, factor_);
  const FlatUpdate u{flat_.values, flat_.grads, first_, second_, flat_.decays, scaled ? factor_ : Tensor(),
                     flat_.copy,   numbers_};
  if (config_.kind == OptimizerConfig::Kind::adamw)
    adamw(u, config_.beta1, config_.beta2, config_.eps);
  else
    sgd(u, config_.momentum, config_.weight_decay, config_.nesterov);
}

void Optimizer::update_on_cpu(double weight) {
  const bool is_adamw = config_.kind == OptimizerConfig::Kind::adamw;
  const double norm = config_.clip_norm > 0 ? flat_.grad_norm() / weight : 0;
  const double factor =
      (config_.clip_norm > 0 ? std::min(1.0, config_.clip_norm / (norm + 1e-6)) : 1) / weight;
  float *p = flat_.values.data<float>(), *g = flat_.grads.data<float>(), *m = first_.data<float>();
  flat_.for_each_range([&](int64_t at, int64_t n, bool decays) {
    const double decay = decays ? config_.weight_decay : 0;
    if (is_adamw) {
      const AdamStep s{lr_,
                       config_.beta1,
                       config_.beta2,
                       config_.eps,
                       decay,
                       1 - std::pow(config_.beta1, double(steps_)),
                       1 - std::pow(config_.beta2, double(steps_)),
                       factor};
      rows<float>().adamw(p + at, g + at, m + at, second_.data<float>() + at, n, s);
    } else {
      rows<float>().sgd(p + at, g + at, m + at, n, {lr_, config_.momentum, decay, config_.nesterov, factor});
    }
  });
  flat_.refresh();
}

std::vector<NamedTensor> Optimizer::state() {
  if (config_.kind == OptimizerConfig::Kind::adamw)
    return {{"optimizer.m", &first_}, {"optimizer.v", &second_}};
  return {{"optimizer.momentum", &first_}};
}

Ema::Ema(FlatParameters& parameters, double decay) : flat_(parameters), decay_(decay) {
  MemoryTag tag("weights");
  values = empty_like(parameters.values);
  copy_values(values, parameters.values);
}

void Ema::update() {
  values.bump_version("an average of weights");
  if (flat_.on_gpu()) return ema(values, flat_.values, decay_);
  flat_.for_each_range([&](int64_t at, int64_t n, bool) {
    rows<float>().ema(values.data<float>() + at, flat_.values.data<float>() + at, n, decay_);
  });
}

void Ema::swap() {
  const Tensor average = empty_like(values);
  copy_values(average, values);
  copy_values(values, flat_.values);
  copy_values(flat_.values, average);
  flat_.refresh();
}

}  // namespace pursuit::nn
