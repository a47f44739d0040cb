#include <cmath>

#include "engine/ops.h"
#include "nn/attention/functions.h"
#include "nn/attention/kind.h"

namespace pursuit::nn {

namespace {

// elu(x) + 1, which is exp(x) below 0 and x + 1 above. The gradient of clamp at 0 is 1, like elu's.
Tensor feature_map(const Tensor& x) { return exp(clamp(x, -INFINITY, 0)) + relu(x); }

struct LinearAttention : AttentionKind {
  static constexpr KindTraits traits = {.name = "linear", .exponential = false};
  using AttentionKind::AttentionKind;

  Tensor mix(const Tensor& packed, const Tensor&) const override {
    return linear_attention(packed, layer().causal);
  }

  Tensor probabilities(const Tensor& packed, int64_t queries) const override {
    const Tensor q = part(packed, 0), k = part(packed, 1);
    return linear_attention_weights(q, k, layer().causal).slice(2, 0, queries);
  }
};
PURSUIT_ATTENTION_KIND(LinearAttention)

}  // namespace

Tensor linear_attention_weights(const Tensor& q, const Tensor& k, bool causal) {
  Tensor weights = matmul(feature_map(q), feature_map(k).transpose(-1, -2));
  if (causal) weights = weights * lower_triangle(k.size(2), k.dtype(), k.device());
  return weights / sum(weights, {-1}, true);
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
