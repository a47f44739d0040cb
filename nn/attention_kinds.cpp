#include "nn/attention_kinds.h"

#include <cmath>

namespace pursuit::nn {

namespace {

void check_packed(const char* where, const Tensor& qkv, int64_t least_parts) {
  if (qkv.ndim() != 5 || qkv.size(2) < least_parts || qkv.size(2) > 3)
    fail(where, "got " + qkv.str() + ", need [batch, tokens, 3 (q, k, v), heads, head_dim]");
}

// [B, H, N, D] of several parts to [B, N, parts, H, D].
Tensor pack(const std::vector<Tensor>& parts) { return stack(parts, 0).permute({1, 3, 0, 2, 4}); }

// elu(x) + 1: exp(x) below 0, x + 1 above. By clamp, whose gradient at 0 is 1 as elu's is.
Tensor feature_map(const Tensor& x) { return exp(clamp(x, -INFINITY, 0)) + relu(x); }

}  // namespace

Tensor part(const Tensor& qkv, int64_t i) { return qkv.select(2, i).permute({0, 2, 1, 3}); }

Tensor split_heads(const Tensor& x, int64_t heads) {
  return x.reshape({x.size(0), x.size(1), heads, x.size(2) / heads}).permute({0, 2, 1, 3});
}

Tensor merge_heads(const Tensor& x) {
  return x.permute({0, 2, 1, 3}).reshape({x.size(0), x.size(2), x.size(1) * x.size(3)});
}

Tensor attention_gate(const Tensor& h, const Tensor& weight, const Tensor& bias) {
  if (h.ndim() != 4 || weight.shape() != Shape{h.size(1), h.size(3)} || bias.shape() != Shape{h.size(1)})
    fail("gated_attention", "got h " + h.str() + ", weight " + weight.str() + ", bias " + bias.str() +
                                ", need [batch, heads, tokens, head_dim], [heads, head_dim] and [heads]");
  const Tensor w = weight.reshape({h.size(1), h.size(3), 1}), b = bias.reshape({h.size(1), 1});
  return sigmoid(matmul(h, w).reshape({h.size(0), h.size(1), h.size(2)}) + b);
}

Tensor gated_attention(const Tensor& qkv, const Tensor& h, const Tensor& gate_weight, const Tensor& gate_bias,
                       const AttentionOptions& options) {
  check_packed("gated_attention", qkv, 2);
  const int64_t heads = qkv.size(3);
  const Tensor gate = attention_gate(h, gate_weight, gate_bias);
  if (gate.shape() != Shape{qkv.size(0), heads, qkv.size(1)})
    fail("gated_attention", "h is " + h.str() + ", which does not fit qkv " + qkv.str());
  const Tensor mixed = attention(qkv, options).reshape({qkv.size(0), qkv.size(1), heads, qkv.size(4)});
  return (mixed * gate.permute({0, 2, 1}).reshape({qkv.size(0), qkv.size(1), heads, 1}))
      .reshape({qkv.size(0), qkv.size(1), heads * qkv.size(4)});
}

Tensor scaled_values(const Tensor& qkv, ScaledVariant variant, const Tensor& s_or_alpha,
                     const AttentionOptions& options) {
  const bool symmetric = variant == ScaledVariant::alpha_sym;
  check_packed("scaled_attention", qkv, symmetric ? 2 : 3);
  const int64_t heads = qkv.size(3), tokens = qkv.size(1);
  const Shape wanted = variant == ScaledVariant::s ? Shape{heads, tokens, tokens} : Shape{1};
  if (s_or_alpha.shape() != wanted)
    fail("scaled_attention", std::string(variant == ScaledVariant::s ? "S" : "alpha") + " is " +
                                 s_or_alpha.str() + ", need " + wanted.str() + " for a " + qkv.str());

  const Tensor k = part(qkv, -2), v = part(qkv, -1), q = symmetric ? k : part(qkv, 0);
  const auto mix_by = [&](const std::vector<Tensor>& parts) {
    return split_heads(attention(pack(parts), options), heads);
  };
  Tensor taken;
  switch (variant) {
    case ScaledVariant::s:
      taken = matmul(s_or_alpha, v);
      break;
    case ScaledVariant::alpha_asym:
      taken = s_or_alpha * mix_by({q, k, v});
      break;
    case ScaledVariant::alpha:
    case ScaledVariant::alpha_sym:
      taken = s_or_alpha * mix_by({k, v});
      break;
  }
  return v - taken;
}

Tensor scaled_attention(const Tensor& qkv, ScaledVariant variant, const Tensor& s_or_alpha,
                        const AttentionOptions& options) {
  const Tensor values = scaled_values(qkv, variant, s_or_alpha, options), k = part(qkv, -2);
  return attention(variant == ScaledVariant::alpha_sym ? pack({k, values}) : pack({part(qkv, 0), k, values}),
                   options);
}

Tensor linear_attention_weights(const Tensor& q, const Tensor& k, bool causal) {
  Tensor weights = matmul(feature_map(q), feature_map(k).transpose(-1, -2));
  if (causal) weights = weights * lower_triangle(k.size(2), k.dtype(), k.device());
  return weights / sum(weights, {-1}, true);
}

Tensor attention_weights(const Tensor& q, const Tensor& k, double scale, bool causal) {
  const Tensor scores = matmul(q, k.transpose(-1, -2)) * scale;
  if (!causal) return softmax(scores);
  const int64_t n = k.size(2);
  const Tensor seen = lower_triangle(n, k.dtype(), k.device()).slice(0, n - q.size(2), n);
  return softmax(scores + log(seen));  // log 0 = -inf
}

Tensor linear_attention(const Tensor& qkv, bool causal) {
  check_packed("linear_attention", qkv, 3);
  if (causal)
    return merge_heads(matmul(linear_attention_weights(part(qkv, 0), part(qkv, 1), true), part(qkv, 2)));
  const Tensor q = feature_map(part(qkv, 0)), k = feature_map(part(qkv, 1)), v = part(qkv, 2);
  const Tensor mixture = matmul(k.transpose(-1, -2), v);     // [B, H, D, D]
  const Tensor total = sum(k, {2}, true).transpose(-1, -2);  // [B, H, D, 1]
  return merge_heads(matmul(q, mixture) / matmul(q, total));
}

}  // namespace pursuit::nn
