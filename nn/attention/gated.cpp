#include "engine/ops.h"
#include "nn/attention/functions.h"
#include "nn/attention/kind.h"

namespace pursuit::nn {

namespace {

// Softmax attention with a learned gate per head and token.
// Weights and bias of the gates begin at 0, so that every gate is 1/2; the published ones draw the weights.
struct Gated : AttentionKind {
  static constexpr KindTraits traits = {.name = "gated", .has_cache = true};

  explicit Gated(const AttentionLayer& layer) : AttentionKind(layer) {
    add_parameter("gate.weight", weight, {layer.heads, layer.dim / layer.heads});
    add_parameter("gate.bias", bias, {layer.heads});
  }

  Tensor mix(const Tensor& packed, const Tensor& x) const override {
    return gated_attention(packed, split_heads(x, layer().heads), weight.to(x.dtype()), bias.to(x.dtype()),
                           {.causal = layer().causal});
  }

  std::optional<AttentionOptions> softmax_options() const override { return {{.causal = layer().causal}}; }
  Tensor gated(const Tensor& mixed, const Tensor& x) const override {
    return apply_gate(
        mixed, attention_gate(split_heads(x, layer().heads), weight.to(x.dtype()), bias.to(x.dtype())));
  }

  Tensor mix_by(const Tensor& p, const Tensor& values, const Tensor& x,
                const Dropout& dropout) const override {
    const Tensor gate =
        attention_gate(split_heads(x, layer().heads), weight.to(x.dtype()), bias.to(x.dtype()));
    return AttentionKind::mix_by(p, values, x, dropout) *
           gate.reshape({x.size(0), layer().heads, x.size(1), 1});
  }

  Tensor weight, bias;
};
PURSUIT_ATTENTION_KIND(Gated)

}  // namespace

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
  return apply_gate(attention(qkv, options), gate);
}

Tensor apply_gate(const Tensor& mixed, const Tensor& gate) {
  const int64_t batch = mixed.size(0), tokens = mixed.size(1), heads = gate.size(1);
  const Tensor by_head = mixed.reshape({batch, tokens, heads, mixed.size(2) / heads});
  return (by_head * gate.permute({0, 2, 1}).reshape({batch, tokens, heads, 1})).reshape(mixed.shape());
}

}  // namespace pursuit::nn
