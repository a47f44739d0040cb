#pragma once
#include <string>
#include <utility>
#include <vector>

#include "engine/core/tensor.h"

namespace pursuit::nn {

class Lookups;

// What a parameter is, by which a scheme chooses its initial values, see nn/init.h.
enum class Role {
  zero,  // starts at 0 in every scheme
  norm_weight,
  norm_bias,
  embedding,   // a row a word, class or position; also the rows of a language model's output layer
  projection,  // [in, out] of a mask decoder
  weight,      // of linear layers and convolutions; those of some are told apart:
  qkv_weight,
  attention_out_weight,  // added to the residual stream, as
  mlp_out_weight,
  tail_projection,  // of an adaptive softmax
  bias,
  attention_out_bias,
};
struct Initial {
  Role role = Role::zero;
  int64_t fan_in = 0;  // the inputs of one output of its layer; of weights and their biases
};

struct NamedTensor {
  std::string name;
  Tensor* tensor;
  Initial initial = {};
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
  // A parameter of this shape: zeros that require a gradient.
  void add_parameter(const std::string& name, Tensor& tensor, const Shape& shape, Initial initial = {},
                     Lookups* lookups = nullptr);
  // Of a child without a name the parameters have the names of this module's own.
  void add_module(const std::string& name, Module& child);

 private:
  void collect(const std::string& prefix, std::vector<NamedTensor>& out) const;

  std::vector<NamedTensor> own_;
  std::vector<std::pair<std::string, Module*>> children_;
  bool training_ = false;
};

}  // namespace pursuit::nn
