#pragma once
#include <string>
#include <utility>
#include <vector>

#include "engine/core/tensor.h"

namespace pursuit::distributed {
class Communicator;
}

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

// A part of a model that owns parameters, buffers and other modules, each under the name it has in a PyTorch
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
  // What is saved with the parameters and not trained, in the same order: running statistics.
  std::vector<NamedTensor> buffers() const;
  // Parameters and buffers: what a checkpoint holds of a model.
  std::vector<NamedTensor> state() const;

  // Moves all parameters and buffers to a device, before anything else holds them.
  void to(Device device);

  // What differs between training and evaluation (dropout, drop path, batch norm) follows this; default:
  // evaluation.
  void set_training(bool on);
  bool training() const { return training_; }

  // Batch norms take their statistics from the batches of all ranks, which outlive this; null, the default:
  // from their own.
  void synchronise(distributed::Communicator* ranks);

 protected:
  // A parameter of this shape: zeros that require a gradient.
  void add_parameter(const std::string& name, Tensor& tensor, const Shape& shape, Initial initial = {},
                     Lookups* lookups = nullptr);
  // A buffer that starts with these values. f32 ones are averaged where weights are.
  void add_buffer(const std::string& name, Tensor& tensor, const Tensor& values);
  // Of a child without a name the parameters have the names of this module's own.
  void add_module(const std::string& name, Module& child);

  distributed::Communicator* ranks() const { return ranks_; }

 private:
  using Own = std::vector<NamedTensor> Module::*;
  void collect(Own own, const std::string& prefix, std::vector<NamedTensor>& out) const;

  std::vector<NamedTensor> parameters_, buffers_;  // its own
  std::vector<std::pair<std::string, Module*>> children_;
  bool training_ = false;
  distributed::Communicator* ranks_ = nullptr;
};

// A module that is called as a function: m(x, ...) is m.forward(x, ...).
template <class M> class Callable : public Module {
 public:
  template <class... A> auto operator()(const A&... arguments) const {
    return static_cast<const M&>(*this).forward(arguments...);
  }
};

}  // namespace pursuit::nn
