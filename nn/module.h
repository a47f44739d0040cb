#pragma once
#include <string>
#include <utility>
#include <vector>

#include "engine/tensor.h"

namespace pursuit::nn {

class Lookups;

struct NamedTensor {
  std::string name;
  Tensor* tensor;
  Lookups* lookups = nullptr;  // of a table whose lookups' gradients can be kept apart, see nn/lookups.h
};

// A part of a model that owns parameters and other modules, each under the name it has in a PyTorch
// state_dict. Modules register their members by address in their constructor, so they neither copy nor move.
class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // All parameters, own ones first, children in the order of registration: "blocks.0.attn.qkv.weight".
  std::vector<NamedTensor> parameters() const;
  int64_t parameter_count() const;  // their elements

  // Moves all parameters to a device, before anything else holds them.
  void to(Device device);

  // What differs between training and evaluation (dropout, drop path) follows this; default: evaluation.
  void set_training(bool on);
  bool training() const { return training_; }

 protected:
  // A parameter of this shape: zeros that require a gradient. Initialisers fill it.
  void add_parameter(const std::string& name, Tensor& tensor, const Shape& shape, Lookups* lookups = nullptr);
  void add_module(const std::string& name, Module& child);

 private:
  void collect(const std::string& prefix, std::vector<NamedTensor>& out) const;

  std::vector<NamedTensor> own_;
  std::vector<std::pair<std::string, Module*>> children_;
  bool training_ = false;
};

}  // namespace pursuit::nn
