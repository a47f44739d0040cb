#include "nn/init.h"

#include <algorithm>
#include <cmath>

#include "engine/base/streams.h"

namespace pursuit::nn {

void fill_constant(Tensor& t, double value) { copy_values(t, full(t.shape(), value, t.dtype(), t.device())); }

void fill_normal(Tensor& t, double mean, double std, uint64_t seed, uint64_t stream) {
  copy_values(t, normal(t.shape(), mean, std, seed, stream));
}

void fill_uniform(Tensor& t, double bound, uint64_t seed, uint64_t stream) {
  copy_values(t, uniform(t.shape(), -bound, bound, seed, stream));
}

void fill_truncated_normal(Tensor& t, double std, uint64_t seed, uint64_t stream) {
  const Tensor drawn = normal(t.shape(), 0, std, seed, stream);
  // At std 0.02 the bound is 100 standard deviations away, where clamping equals redrawing.
  float* p = drawn.data<float>();
  for (int64_t i = 0; i < drawn.numel(); ++i) p[i] = std::clamp(p[i], -2.0f, 2.0f);
  copy_values(t, drawn);
}

namespace {

bool is_weight(Role role) {
  return role == Role::weight || role == Role::qkv_weight || role == Role::attention_out_weight ||
         role == Role::mlp_out_weight || role == Role::tail_projection;
}

// A parameter and the random stream of its initial values.
struct Fill {
  Tensor& t;
  uint64_t seed, stream;

  void constant(double value) const { fill_constant(t, value); }
  void normal(double std, double mean = 0) const { fill_normal(t, mean, std, seed, stream); }
  void truncated_normal(double std) const { fill_truncated_normal(t, std, seed, stream); }
  void uniform(double bound) const { fill_uniform(t, bound, seed, stream); }
  void uniform_by(int64_t fan_in) const { uniform(1 / std::sqrt(double(std::max<int64_t>(1, fan_in)))); }
};

void by_timm(const Fill& fill, const Initial& p) {
  p.role == Role::embedding || is_weight(p.role) ? fill.truncated_normal(0.02) : fill.constant(0);
}

void by_pytorch(const Fill& fill, const Initial& p) {
  p.role == Role::embedding ? fill.truncated_normal(0.02) : fill.uniform_by(p.fan_in);
}

void by_gpt2(const Fill& fill, const Initial& p, int64_t depth) {
  const bool adds = p.role == Role::attention_out_weight || p.role == Role::mlp_out_weight;
  if (adds)
    fill.normal(0.02 / std::sqrt(2 * double(depth)));
  else
    p.role == Role::embedding || is_weight(p.role) ? fill.normal(0.02) : fill.constant(0);
}

void by_transformer_xl(const Fill& fill, const Initial& p) {
  if (p.role == Role::norm_weight)
    fill.normal(0.02, 1);
  else if (p.role == Role::tail_projection)
    fill.normal(0.01);
  else
    p.role == Role::embedding || is_weight(p.role) ? fill.normal(0.02) : fill.constant(0);
}

void by_fairseq(const Fill& fill, const Initial& p) {
  // Xavier-uniform for the [dim, dim] matrix of each of q, k and v: sqrt(6 / (dim + dim)).
  if (p.role == Role::embedding)
    fill.normal(1 / std::sqrt(double(fill.t.size(-1))));
  else if (p.role == Role::qkv_weight)
    fill.uniform(std::sqrt(3 / double(p.fan_in)) * std::sqrt(0.5));
  else if (p.role == Role::attention_out_weight)
    fill.uniform(std::sqrt(3 / double(p.fan_in)));
  else
    p.role == Role::attention_out_bias ? fill.constant(0) : fill.uniform_by(p.fan_in);
}

}  // namespace

void initialise(Module& model, Init init, uint64_t seed) {
  const std::vector<NamedTensor> parameters = model.parameters();
  const int64_t depth = std::count_if(parameters.begin(), parameters.end(), [](const NamedTensor& p) {
    return p.initial.role == Role::mlp_out_weight;
  });
  uint64_t number = 0;
  for (const NamedTensor& p : parameters) {
    const Fill fill{*p.tensor, seed, streams::weights.at(number++)};
    const Role role = p.initial.role;
    if (role == Role::zero || role == Role::norm_bias)
      fill.constant(0);
    else if (role == Role::norm_weight && init != Init::transformer_xl)
      fill.constant(1);
    else if (role == Role::uniform)
      fill.uniform_by(p.initial.fan_in);
    else if (role == Role::depthwise_weight && init != Init::pytorch)
      fill.normal(std::sqrt(2 / double(p.initial.fan_in)));
    else if (role == Role::projection)
      fill.truncated_normal(1 / std::sqrt(double(p.initial.fan_in)));
    else if (init == Init::timm)
      by_timm(fill, p.initial);
    else if (init == Init::pytorch)
      by_pytorch(fill, p.initial);
    else if (init == Init::gpt2)
      by_gpt2(fill, p.initial, depth);
    else if (init == Init::transformer_xl)
      by_transformer_xl(fill, p.initial);
    else
      by_fairseq(fill, p.initial);
  }
}

}  // namespace pursuit::nn
