#include "nn/module.h"

namespace pursuit::nn {

std::vector<NamedTensor> Module::parameters() const {
  std::vector<NamedTensor> all;
  collect(&Module::parameters_, "", all);
  return all;
}

std::vector<NamedTensor> Module::buffers() const {
  std::vector<NamedTensor> all;
  collect(&Module::buffers_, "", all);
  return all;
}

std::vector<NamedTensor> Module::state() const {
  std::vector<NamedTensor> all = parameters();
  for (const NamedTensor& b : buffers()) all.push_back(b);
  return all;
}

int64_t Module::parameter_count() const {
  int64_t count = 0;
  for (const NamedTensor& p : parameters()) count += p.tensor->numel();
  return count;
}

void Module::collect(Own own, const std::string& prefix, std::vector<NamedTensor>& out) const {
  for (const NamedTensor& t : this->*own)
    out.push_back({prefix + t.name, t.tensor, t.initial, t.lookups, t.rounded, t.on_cpu});
  for (const auto& [name, child] : children_)
    child->collect(own, prefix + (name.empty() ? "" : name + "."), out);
}

void Module::to(Device device) {
  MemoryTag tag("weights");
  for (const NamedTensor& t : state()) {
    if (t.on_cpu) continue;
    Tensor moved = t.tensor->detach().to(device);
    if (t.tensor->needs_grad()) moved.requires_grad();
    *t.tensor = moved;
  }
}

void Module::set_training(bool on) {
  training_ = on;
  for (const auto& [name, child] : children_) child->set_training(on);
}

void Module::quantize(const std::shared_ptr<Quantization>& how) {
  if (quantization_ == how) return;
  quantization_ = how;
  on_quantize();
  for (const auto& [name, child] : children_) child->quantize(how);
}

void Module::code_parameter(const std::string& name, Tensor& tensor, Tensor& scale) {
  std::erase_if(parameters_, [&](const NamedTensor& p) { return p.tensor == &tensor; });
  MemoryTag tag("weights");
  add_buffer(name, tensor, zeros(tensor.shape(), DType::i8));
  add_buffer(name + "_scale", scale, zeros({tensor.size(0)}));
}

void Module::round_parameter(const Tensor& tensor) {
  for (NamedTensor& p : parameters_) p.rounded |= p.tensor == &tensor;
}

void Module::synchronise(distributed::Communicator* ranks) {
  ranks_ = ranks;
  for (const auto& [name, child] : children_) child->synchronise(ranks);
}

void Module::add_parameter(const std::string& name, Tensor& tensor, const Shape& shape, Initial initial,
                           Lookups* lookups) {
  MemoryTag tag("weights");
  tensor = zeros(shape);
  tensor.requires_grad();
  parameters_.push_back({name, &tensor, initial, lookups});
}

void Module::add_buffer(const std::string& name, Tensor& tensor, const Tensor& values, bool on_cpu) {
  tensor = values;
  buffers_.push_back({.name = name, .tensor = &tensor, .on_cpu = on_cpu});
}

void Module::add_module(const std::string& name, Module& child) { children_.push_back({name, &child}); }

}  // namespace pursuit::nn
