#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/tensor.h"

namespace pursuit::distributed {
class Communicator;
}

namespace pursuit::nn {

class Lookups;
struct Quantization;

// The role of a parameter, from which an initialisation scheme chooses its values, see nn/init.h.
enum class Role {
  zero,     // initialised to 0 in every scheme
  uniform,  // U(+-1 / sqrt(fan_in)) in every scheme
  norm_weight,
  norm_bias,
  embedding,   // one row per word, class or position; also a language model's output layer
  projection,  // [in, out] of a mask decoder
  weight,      // of linear layers and convolutions, except:
  qkv_weight,
  attention_out_weight,  // these two add to the residual stream
  mlp_out_weight,
  depthwise_weight,  // of a convolution of every channel by itself
  tail_projection,   // of an adaptive softmax
  bias,
  attention_out_bias,
};
struct Initial {
  Role role = Role::zero;
  int64_t fan_in = 0;  // inputs per output of the layer; for weights and their biases
};

struct NamedTensor {
  std::string name;
  Tensor* tensor;
  Initial initial = {};
  Lookups* lookups = nullptr;  // of a table whose lookups' gradients can be kept separate, see nn/lookups.h
  bool rounded = false;        // of a quantised model: f32, on a grid
  bool on_cpu = false;         // stays there: numbers that every forward reads
};

// A part of a model that owns parameters, buffers and submodules, named as in a PyTorch state_dict. Modules
// register their members by address in their constructor, so they can be neither copied nor moved.
class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // All parameters, own ones first, then children in order of registration: "blocks.0.attn.qkv.weight".
  std::vector<NamedTensor> parameters() const;
  int64_t parameter_count() const;  // number of elements
  // State that is saved with the parameters but not trained (running statistics), in the same order.
  std::vector<NamedTensor> buffers() const;
  // Parameters and buffers: what a checkpoint stores of a model.
  std::vector<NamedTensor> state() const;

  // Moves all parameters and buffers to a device, but those that stay on the CPU; call it before anything
  // else holds them.
  void to(Device device);

  // Switches between training and evaluation mode (dropout, drop path, batch norm). Default:
  // evaluation.
  void set_training(bool on);
  bool training() const { return training_; }

  // Makes this a quantised model (nn/quantization): weights of linear layers and embeddings become int8
  // buffers beside their scales, and activations are rounded. Their values are then loaded, or made by
  // quantize_weights.
  void quantize(const std::shared_ptr<Quantization>& how);
  const std::shared_ptr<Quantization>& quantization() const { return quantization_; }  // null: f32

  // Synchronised batch norm: statistics over the batches of all ranks; `ranks` must outlive this. Null
  // (default): statistics per rank.
  void synchronise(distributed::Communicator* ranks);

 protected:
  // Registers a parameter of this shape: zeros that require a gradient.
  void add_parameter(const std::string& name, Tensor& tensor, const Shape& shape, Initial initial = {},
                     Lookups* lookups = nullptr);
  // Registers a buffer with initial values. f32 buffers are averaged along with the weights (Ema).
  void add_buffer(const std::string& name, Tensor& tensor, const Tensor& values, bool on_cpu = false);
  // With an empty name the child's parameters are named as if they were this module's own.
  void add_module(const std::string& name, Module& child);

  // Replaces the f32 parameter `name` [rows, ...] by the buffers `name`, i8, and `name`_scale, f32 [rows].
  void code_parameter(const std::string& name, Tensor& tensor, Tensor& scale);
  // Marks a parameter that a quantised model keeps in f32, with values on a grid.
  void round_parameter(const Tensor& tensor);
  // Called by quantize, before it goes on to the children.
  virtual void on_quantize() {}

  distributed::Communicator* ranks() const { return ranks_; }

 private:
  using Own = std::vector<NamedTensor> Module::*;
  void collect(Own own, const std::string& prefix, std::vector<NamedTensor>& out) const;

  std::vector<NamedTensor> parameters_, buffers_;  // its own
  std::vector<std::pair<std::string, Module*>> children_;
  bool training_ = false;
  distributed::Communicator* ranks_ = nullptr;
  std::shared_ptr<Quantization> quantization_;
};

// A module called like a function: m(x, ...) is m.forward(x, ...).
template <class M> class Callable : public Module {
 public:
  template <class... A> auto operator()(const A&... arguments) const {
    return static_cast<const M&>(*this).forward(arguments...);
  }
};

}  // namespace pursuit::nn
