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

bool may_be_causal(AttentionKind kind) {
  return kind != AttentionKind::svt && kind != AttentionKind::scaled_s;
}

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
    : qkv(dim, (shares_queries(config.kind) ? 2 : 3) * dim, config.bias),
      proj(dim, dim, config.bias),
      dim_(dim),
      heads_(heads),
      config_(config) {
  if (heads < 1 || dim % heads)
    fail("attention",
         "width " + std::to_string(dim) + " does not divide into " + std::to_string(heads) + " heads");
  if (config.causal && !may_be_causal(config.kind))
    fail("attention", std::string(name_of(config.kind)) +
                          " mixes all tokens into each and cannot be causal; use another kind");
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
      return svt_attention(packed, {.iterations = config_.rpc.iterations});
    case AttentionKind::scaled_s:
      return scaled_attention(packed, ScaledVariant::s, s.to(t), plain);
    case AttentionKind::scaled_alpha:
      return scaled_attention(packed, ScaledVariant::alpha, alpha.to(t), plain);
    case AttentionKind::clipped:
      return attention(packed, {.causal = config_.causal, .gamma = config_.gamma, .zeta = config_.zeta});
    case AttentionKind::gated:
      return gated_attention(packed, split_heads(x, heads_), gate_weight.to(t), gate_bias.to(t), plain);
    case AttentionKind::linear:
      return linear_attention(packed, config_.causal);
  }
  fail("attention", "a kind without an operator");
}

Tensor Attention::project(const Tensor& x) const {
  if (x.ndim() != 3 || x.size(2) != dim_)
    fail("attention", "got " + x.str() + ", need [batch, tokens, " + std::to_string(dim_) + "]");
  return qkv.forward(x).reshape({x.size(0), x.size(1), qkv.weight.size(0) / dim_, heads_, dim_ / heads_});
}

Tensor Attention::forward(const Tensor& x, const Tensor& residual, const Dropout& dropout) const {
  const Tensor packed = project(x);
  if (dropout.rate == 0) return proj.forward(mix(packed, x), residual);
  const AttentionOptions plain{.causal = config_.causal};
  Tensor v = part(packed, -1);
  if (config_.kind == AttentionKind::scaled_s)
    v = scaled_values(packed, ScaledVariant::s, s.to(x.dtype()), plain);
  if (config_.kind == AttentionKind::scaled_alpha)
    v = scaled_values(packed, ScaledVariant::alpha, alpha.to(x.dtype()), plain);
  return proj.forward(mix_by(weights(packed, x.size(1)), v, x, dropout), residual);
}

// From the probabilities of x's tokens and the values of all tokens to [B, M, dim].
Tensor Attention::mix_by(const Tensor& weights, const Tensor& v, const Tensor& x,
                         const Dropout& dropout) const {
  Tensor p = weights;
  if (config_.kind == AttentionKind::clipped)
    p = clamp(affine(p, config_.zeta - config_.gamma, config_.gamma), 0, 1);
  Tensor mixed = matmul(dropout(p), v);  // [B, H, M, D]
  if (config_.kind == AttentionKind::gated) {
    const Tensor gate =
        attention_gate(split_heads(x, heads_), gate_weight.to(x.dtype()), gate_bias.to(x.dtype()));
    mixed = mixed * gate.reshape({x.size(0), heads_, x.size(1), 1});
  }
  return merge_heads(mixed);
}

bool Attention::has_cache() const {
  switch (config_.kind) {
    case AttentionKind::softmax:
    case AttentionKind::symmetric:
    case AttentionKind::clipped:
    case AttentionKind::gated:
      return config_.causal;
    default:
      return false;
  }
}

Tensor Attention::forward_cached(const Tensor& x, AttentionCache& cache) const {
  if (!has_cache())
    fail("attention", std::string("there is no key/value cache for ") +
                          (config_.causal ? "" : "non-causal ") + name_of(config_.kind) +
                          " attention; run the whole context");
  NoGrad off;
  const Tensor packed = project(x), q = part(packed, 0), k = part(packed, -2), v = part(packed, -1);
  cache.keys = cache.keys.defined() ? concat(cache.keys, k, 2) : k;
  cache.values = cache.values.defined() ? concat(cache.values, v, 2) : v;
  const Tensor p = attention_weights(q, cache.keys, 1 / std::sqrt(double(dim_ / heads_)), true);
  return proj.forward(mix_by(p, cache.values, x, {}));
}

Tensor Attention::probabilities(const Tensor& x, int64_t queries) const {
  NoGrad off;
  return weights(project(x.detach()), queries < 0 ? x.size(1) : queries);
}

// Of the first `queries` tokens, [B, H, queries, N].
Tensor Attention::weights(const Tensor& packed, int64_t queries) const {
  Tensor q = part(packed, 0), k = part(packed, -2);
  RpcOptions rpc = config_.rpc;
  rpc.causal = config_.causal;
  if (config_.kind == AttentionKind::rpc) q = k = rpc_last_keys(packed, rpc).to(packed.dtype());
  if (config_.kind == AttentionKind::svt) q = k = svt_keys(packed, {.iterations = config_.rpc.iterations});
  if (config_.kind == AttentionKind::linear)
    return linear_attention_weights(q, k, config_.causal).slice(2, 0, queries);
  const double scale = 1 / std::sqrt(double(dim_ / heads_));
  // Causal queries are counted from the last token, others are taken before the product.
  if (config_.causal) return attention_weights(q, k, scale, true).slice(2, 0, queries);
  return attention_weights(q.slice(2, 0, queries), k, scale, false);
}

Tensor Attention::query_weights() const {
  return qkv.weight.slice(0, 0, dim_).reshape({heads_, dim_ / heads_, dim_});
}

Tensor Attention::key_weights() const {
  const int64_t first = qkv.weight.size(0) - 2 * dim_;
  return qkv.weight.slice(0, first, first + dim_).reshape({heads_, dim_ / heads_, dim_});
}

}  // namespace pursuit::nn
