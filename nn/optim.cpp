#include "nn/optim.h"

#include "engine/step/optim.h"
#include "nn/lookups.h"

namespace pursuit::nn {

bool decays_by_timm(const std::string& name, const Tensor& t) {
  return t.ndim() > 1 && !name.ends_with("pos_embed") && !name.ends_with("cls_token") &&
         !name.ends_with("cls_emb");
}

std::vector<int64_t> flat_offsets(const std::vector<NamedTensor>& parameters) {
  constexpr int64_t alignment = 8;  // 16 bytes of bf16, one vector load of a kernel
  std::vector<int64_t> offsets;
  int64_t end = 0;
  for (const NamedTensor& p : parameters) {
    offsets.push_back((end + alignment - 1) / alignment * alignment);
    end = offsets.back() + p.tensor->numel();
  }
  offsets.push_back(end);
  return offsets;
}

namespace {

// Makes the tensor a view of `flat` at offset `at`, keeping its values and node.
void move_to(const Tensor& flat, int64_t at, Tensor& t) {
  Tensor home = flat.view(t.shape(), contiguous_strides(t.shape()), at);
  copy_values(home, t);
  home.set_node(t.node());
  t = home;
}

std::vector<std::pair<std::string, Tensor>> parts_by_name(const Tensor& flat,
                                                          const std::vector<NamedTensor>& tensors) {
  const std::vector<int64_t> offsets = flat_offsets(tensors);
  std::vector<std::pair<std::string, Tensor>> parts;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Shape& shape = tensors[i].tensor->shape();
    parts.emplace_back(tensors[i].name, flat.view(shape, contiguous_strides(shape), offsets[i]));
  }
  return parts;
}

}  // namespace

FlatParameters::FlatParameters(const std::vector<NamedTensor>& parameters, const DecaysBy& decays_by,
                               DType computes_in, const std::vector<NamedTensor>& model_buffers) {
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
  for (const NamedTensor& b : model_buffers)
    if (b.tensor->dtype() == DType::f32) buffers_.push_back(b);
  {
    MemoryTag tag("weights");
    values = zeros({total}, DType::f32, device);
    if (computes_in != DType::f32) copy = zeros({total}, computes_in, device);
    if (!buffers_.empty()) {
      const std::vector<int64_t> places = flat_offsets(buffers_);
      buffers = zeros({places.back()}, DType::f32, device);
      for (size_t i = 0; i < buffers_.size(); ++i) move_to(buffers, places[i], *buffers_[i].tensor);
    }
  }
  MemoryTag tag("weight gradients");
  grads = zeros({total}, DType::f32, device);
  for (size_t i = 0; i < size(); ++i) {
    Tensor& t = *parameters_[i].tensor;
    move_to(values, ranges[i].at, t);
    // On a GPU one kernel gathers all gradients at the end, instead of one launch per gradient.
    if (!on_gpu()) t.bind_grad(grads.view(t.shape(), t.strides(), ranges[i].at));
    t.requires_grad();
    if (copy.defined()) t.bind_copy(copy.view(t.shape(), t.strides(), ranges[i].at));
  }
  refresh();
}

std::vector<std::pair<std::string, Tensor>> FlatParameters::named(const Tensor& buffer) const {
  return parts_by_name(buffer, parameters_);
}

std::vector<std::pair<std::string, Tensor>> FlatParameters::named_buffers(const Tensor& buffer) const {
  return parts_by_name(buffer, buffers_);
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
  gather(parts(first, last), grads, on_gpu());  // on a CPU they are already there
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
  values = empty_like(flat_.values);
  copy_values(values, flat_.values);
  if (!flat_.buffers.defined()) return;
  buffers = empty_like(flat_.buffers);
  copy_values(buffers, flat_.buffers);
}

void Ema::update() {
  values.bump_version("an average of weights");
  ema(values, flat_.values, decay_);
  if (!buffers.defined()) return;
  buffers.bump_version("an average of weights");
  ema(buffers, flat_.buffers, decay_);
}

void Ema::swap() {
  const auto exchange = [](const Tensor& a, const Tensor& b) {
    const Tensor before = empty_like(a);
    copy_values(before, a);
    copy_values(a, b);
    copy_values(b, before);
  };
  exchange(values, flat_.values);
  if (buffers.defined()) exchange(buffers, flat_.buffers);
  flat_.refresh();
}

std::vector<std::pair<std::string, Tensor>> Ema::named() const {
  std::vector<std::pair<std::string, Tensor>> all = flat_.named(values);
  if (!buffers.defined()) return all;
  for (auto& part : flat_.named_buffers(buffers)) all.push_back(std::move(part));
  return all;
}

}  // namespace pursuit::nn
