#include "nn/attention.h"

#include <cmath>

#include "nn/attention_kinds.h"
#include "nn/svt_attention.h"

namespace pursuit::nn {

namespace {

const std::vector<std::string> kind_names = {"softmax",      "symmetric", "rpc",   "svt",   "scaled-s",
                                             "scaled-alpha", "clipped",   "gated", "linear"};

bool shares_queries(AttentionKind kind) {
  return kind == AttentionKind::symmetric || kind == AttentionKind::rpc || kind == AttentionKind::svt;
}

}  // namespace

const std::vector<std::string>& attention_kinds() { return kind_names; }
const char* name_of(AttentionKind kind) { return kind_names[size_t(kind)].c_str(); }

AttentionKind attention_kind(const std::string& name) {
  std::string known;
  for (size_t i = 0; i < kind_names.size(); ++i) {
    if (kind_names[i] == name) return AttentionKind(i);
    known += (i ? ", " : "") + kind_names[i];
  }
  fail("attention", "unknown kind '" + name + "'; known are " + known);
}

Attention::Attention(int64_t dim, int64_t heads, const AttentionConfig& config)
    : qkv(dim, (shares_queries(config.kind) ? 2 : 3) * dim),
      proj(dim, dim),
      dim_(dim),
      heads_(heads),
      config_(config) {
  if (heads < 1 || dim % heads)
    fail("attention",
         "width " + std::to_string(dim) + " does not divide into " + std::to_string(heads) + " heads");
  add_module("qkv", qkv);
  switch (config.kind) {
    case AttentionKind::scaled_s:
      add_parameter("S", s, {heads, config.tokens, config.tokens});
      break;
    case AttentionKind::scaled_alpha:
      add_parameter("alpha", alpha, {1});
      break;
    case AttentionKind::gated:
      add_parameter("gate.weight", gate_weight, {heads, dim / heads});
      add_parameter("gate.bias", gate_bias, {heads});
      break;
    default:
      break;
  }
  add_module("proj", proj);
}

Tensor Attention::mix(const Tensor& packed, const Tensor& x) const {
  const AttentionOptions plain{.causal = config_.causal};
  const DType t = x.dtype();
  switch (config_.kind) {
    case AttentionKind::softmax:
    case AttentionKind::symmetric:
      return attention(packed, plain);
    case AttentionKind::rpc: {
      RpcOptions options = config_.rpc;
      options.causal = config_.causal;
      return rpc_attention(packed, options);
    }
    case AttentionKind::svt:
      if (config_.causal) fail("attention", "svt mixes all tokens into every key and cannot be causal");
      return svt_attention(packed, {.iterations = config_.rpc.iterations});
    case AttentionKind::scaled_s:
      return scaled_attention(packed, ScaledVariant::s, s.to(t), plain);
    case AttentionKind::scaled_alpha:
      return scaled_attention(packed, ScaledVariant::alpha, alpha.to(t), plain);
    case AttentionKind::clipped:
      return attention(packed, {.causal = config_.causal, .gamma = config_.gamma, .zeta = config_.zeta});
    case AttentionKind::gated:
      return gated_attention(packed,
                             x.reshape({x.size(0), x.size(1), heads_, dim_ / heads_}).permute({0, 2, 1, 3}),
                             gate_weight.to(t), gate_bias.to(t), plain);
    case AttentionKind::linear:
      return linear_attention(packed);
  }
  fail("attention", "a kind without an operator");
}

Tensor Attention::forward(const Tensor& x, const Tensor& residual) const {
  if (x.ndim() != 3 || x.size(2) != dim_)
    fail("attention", "got " + x.str() + ", need [batch, tokens, " + std::to_string(dim_) + "]");
  const Tensor packed =
      qkv.forward(x).reshape({x.size(0), x.size(1), qkv.weight.size(0) / dim_, heads_, dim_ / heads_});
  return proj.forward(mix(packed, x), residual);
}

Tensor Attention::class_token_attention(const Tensor& x) const {
  NoGrad off;
  const Tensor packed =
      qkv.forward(x.detach())
          .reshape({x.size(0), x.size(1), qkv.weight.size(0) / dim_, heads_, dim_ / heads_});
  const auto part = [&](int64_t i) { return packed.select(2, i).permute({0, 2, 1, 3}); };
  Tensor q = part(0), k = part(packed.size(2) - 2);
  if (config_.kind == AttentionKind::rpc) q = k = rpc_last_keys(packed, config_.rpc).to(packed.dtype());
  if (config_.kind == AttentionKind::svt) q = k = svt_keys(packed, {.iterations = config_.rpc.iterations});
  const Tensor scores = matmul(q.slice(2, 0, 1), k.transpose(-1, -2)) / std::sqrt(double(dim_ / heads_));
  return softmax(scores).reshape({x.size(0), heads_, x.size(1)});
}

}  // namespace pursuit::nn
