#include "nn/routing/layer.h"

namespace pursuit::nn {

void check(const RoutingSizes& s) {
  if (s.dim < 1 || s.heads < 1 || s.hidden < 1 || s.dim % s.heads)
    fail("routing", "got width " + std::to_string(s.dim) + ", " + std::to_string(s.heads) +
                        " heads, hidden width " + std::to_string(s.hidden) +
                        "; need positive numbers, and heads that divide the width");
}

NodeNorm::NodeNorm(NodeNormKind kind, int64_t dim) {
  if (kind == NodeNormKind::batch) add_module("", batch_.emplace(dim));
  if (kind == NodeNormKind::instance) add_module("", instance_.emplace(dim, 1e-5, /*affine*/ true));
}

Tensor NodeNorm::forward(const Tensor& x) const {
  if (!batch_ && !instance_) return x;
  const Tensor planes = x.permute({0, 2, 1}).reshape({x.size(0), x.size(2), x.size(1), 1});
  const Tensor y = batch_ ? (*batch_)(planes) : (*instance_)(planes);
  return y.reshape({x.size(0), x.size(2), x.size(1)}).permute({0, 2, 1}).contiguous();
}

NodeLayer::NodeLayer(const RoutingSizes& s)
    : heads_(s.heads),
      qkv_(s.dim, 3 * s.dim, /*with_bias*/ false, Role::qkv_weight),
      proj_(s.dim, s.dim, true, Role::attention_out_weight, Role::attention_out_bias),
      norm1_(s.norm, s.dim),
      mlp_(s.dim, s.hidden, Activation::relu),
      norm2_(s.norm, s.dim) {
  add_module("qkv", qkv_);
  add_module("proj", proj_);
  add_module("norm1", norm1_);
  add_module("mlp", mlp_);
  add_module("norm2", norm2_);
}

Tensor NodeLayer::forward(const Tensor& x) const {
  const int64_t dim = x.size(2);
  const Tensor packed = qkv_(x).reshape({x.size(0), x.size(1), 3, heads_, dim / heads_});
  const Tensor h = norm1_(proj_(attention(packed), x));
  return norm2_(mlp_(h, h));
}

}  // namespace pursuit::nn
