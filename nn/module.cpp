#include "nn/module.h"

namespace pursuit::nn {

std::vector<NamedTensor> Module::parameters() const {
  std::vector<NamedTensor> all;
  collect("", all);
  return all;
}

int64_t Module::parameter_count() const {
  int64_t count = 0;
  for (const NamedTensor& p : parameters()) count += p.tensor->numel();
  return count;
}

void Module::collect(const std::string& prefix, std::vector<NamedTensor>& out) const {
  for (const NamedTensor& p : own_) out.push_back({prefix + p.name, p.tensor, p.initial, p.lookups});
  for (const auto& [name, child] : children_) child->collect(prefix + (name.empty() ? "" : name + "."), out);
}

void Module::to(Device device) {
  MemoryTag tag("weights");
  for (const NamedTensor& p : parameters()) {
    Tensor moved = p.tensor->detach().to(device);
    if (p.tensor->needs_grad()) moved.requires_grad();
    *p.tensor = moved;
  }
}

void Module::set_training(bool on) {
  training_ = on;
  for (const auto& [name, child] : children_) child->set_training(on);
}

void Module::add_parameter(const std::string& name, Tensor& tensor, const Shape& shape, Initial initial,
                           Lookups* lookups) {
  MemoryTag tag("weights");
  tensor = zeros(shape);
  tensor.requires_grad();
  own_.push_back({name, &tensor, initial, lookups});
}

void Module::add_module(const std::string& name, Module& child) { children_.push_back({name, &child}); }

}  // namespace pursuit::nn
