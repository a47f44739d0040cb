#include "nn/optim.h"

#include "engine/step/optim.h"
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
    parameters_.push_back(p);
    ranges.push_back({offsets[i], p.tensor->numel(), decays_by(p.name, *p.tensor)});
  }
  {
    MemoryTag tag("weights");
    values = zeros({total}, DType::f32, device);
    if (computes_in != DType::f32) copy = zeros({total}, computes_in, device);
  }
  MemoryTag tag("weight gradients");
  grads = zeros({total}, DType::f32, device);
  for (size_t i = 0; i < size(); ++i) {
    Tensor& t = *parameters_[i].tensor;
    const Shape strides = contiguous_strides(t.shape());
    Tensor home = values.view(t.shape(), strides, ranges[i].at);
    copy_values(home, t);
    home.set_node(t.node());
    t = home;
    // On a GPU one kernel gathers all gradients in the end: a copy for each would cost a launch for each.
    if (!on_gpu()) t.bind_grad(grads.view(t.shape(), strides, ranges[i].at));
    t.requires_grad();
    if (copy.defined()) t.bind_copy(copy.view(t.shape(), strides, ranges[i].at));
  }
  refresh();
}

std::vector<std::pair<std::string, Tensor>> FlatParameters::named(const Tensor& buffer) const {
  std::vector<std::pair<std::string, Tensor>> parts;
  for (size_t i = 0; i < size(); ++i) {
    const Shape& shape = parameters_[i].tensor->shape();
    parts.emplace_back(parameters_[i].name, buffer.view(shape, contiguous_strides(shape), ranges[i].at));
  }
  return parts;
}

void FlatParameters::zero_grad() {
  for (const NamedTensor& p : parameters_) p.tensor->zero_grad();
  finished_at_ = -1;
}

int64_t FlatParameters::arrivals() const {
  int64_t sum = 0;
  for (const NamedTensor& p : parameters_) sum += p.tensor->node()->arrivals;
  return sum;
}

bool FlatParameters::finished() const { return finished_at_ == arrivals(); }

std::vector<FlatPart> FlatParameters::parts(size_t first, size_t last) const {
  std::vector<FlatPart> parts;
  for (size_t i = first; i < last; ++i)
    parts.push_back({parameters_[i].tensor->grad(), ranges[i].at, ranges[i].count});
  return parts;
}

Lookups* FlatParameters::lookups(size_t i) const {
  Lookups* lookups = parameters_[i].lookups;
  return lookups && lookups->apart() ? lookups : nullptr;
}

void FlatParameters::finish_grad() {
  for (size_t i = 0; i < size(); ++i)
    if (lookups(i))
      fail("optimizer", "the lookups of " + parameters_[i].name +
                            " are kept apart, for steps of several batches: use zero_sum and RankGradients");
  finished_at_ = arrivals();
  gather(parts(0, size()), grads);
}

void FlatParameters::zero_sum() {
  zero_grad();
  for (size_t i = 0; i < size(); ++i)
    if (Lookups* apart = lookups(i)) apart->clear();
  if (on_gpu()) copy_values(grads, zeros({1}, DType::f32, grads.device()).expand(grads.shape()));
}

void FlatParameters::add_grad(size_t first, size_t last) {
  gather(parts(first, last), grads, on_gpu());  // on a CPU they are added where they arrive
  if (on_gpu())
    for (size_t i = first; i < last; ++i) parameters_[i].tensor->zero_grad();
  finished_at_ = arrivals();
}

void FlatParameters::refresh() {
  if (copy.defined()) copy_values(copy, values);
}

Optimizer::Optimizer(FlatParameters& parameters, const OptimizerConfig& config)
    : flat_(parameters), config_(config) {
  MemoryTag tag("optimizer");
  const Device device = flat_.values.device();
  first_ = zeros_like(flat_.values);
  if (config.kind == OptimizerConfig::Kind::adamw) second_ = zeros_like(flat_.values);
  decays_ = decay_mask(flat_.ranges, flat_.values.numel(), device);
  factor_ = zeros({}, DType::f32, device);
  step_ = zeros({4}, DType::f32, device);
}

void Optimizer::begin(double lr) { write_step(step_, ++steps_, lr, config_.adamw()); }

void Optimizer::update(const Tensor& weight) {
  if (!flat_.finished()) flat_.finish_grad();
  const bool scaled = config_.clip_norm > 0 || weight.defined();
  if (scaled) gradient_factor(flat_.grads, config_.clip_norm, weight, factor_);
  const FlatUpdate u{
      flat_.values, flat_.grads, first_, second_, flat_.ranges, decays_, scaled ? factor_ : Tensor(),
      flat_.copy,   step_};
  config_.kind == OptimizerConfig::Kind::adamw ? adamw(u, config_.adamw()) : sgd(u, config_.sgd());
  for (const Tensor& written : {flat_.values, flat_.copy}) written.bump_version("an optimizer");
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
  ema(values, flat_.values, decay_);
}

void Ema::swap() {
  const Tensor average = empty_like(values);
  copy_values(average, values);
  copy_values(values, flat_.values);
  copy_values(flat_.values, average);
  flat_.refresh();
}

}  // namespace pursuit::nn
