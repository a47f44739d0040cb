#include <cmath>

#include "engine/ops.h"
#include "nn/attention/functions.h"
#include "nn/attention/kind.h"

namespace pursuit::nn {

namespace {

// Softmax attention after subtracting a part of the attention output from the values; S or alpha is learned.
template <ScaledVariant variant> struct Scaled : AttentionKind {
  using AttentionKind::AttentionKind;

  Tensor mix(const Tensor& packed, const Tensor&) const override {
    return scaled_attention(packed, variant, learned.to(packed.dtype()), {.causal = layer().causal});
  }
  Tensor values(const Tensor& packed) const override {
    return scaled_values(packed, variant, learned.to(packed.dtype()), {.causal = layer().causal});
  }
  Tensor subtracted(const Tensor& packed) const override {
    const Tensor own = learned.to(packed.dtype());
    if constexpr (variant == ScaledVariant::s) {
      return own.expand({packed.size(0), own.size(0), own.size(1), own.size(2)});
    } else {
      const Tensor k = part(packed, -2), q = variant == ScaledVariant::alpha_asym ? part(packed, 0) : k;
      return own * attention_weights(q, k, 1 / std::sqrt(double(k.size(3))), layer().causal);
    }
  }

  Tensor learned;
};

struct ScaledS : Scaled<ScaledVariant::s> {
  static constexpr KindTraits traits = {
      .name = "scaled-s", .title = "Scaled Attention (S)", .may_be_causal = false};

  explicit ScaledS(const AttentionLayer& layer) : Scaled(layer) {
    add_parameter("S", learned, {layer.heads, layer.tokens, layer.tokens});
  }
};
PURSUIT_ATTENTION_KIND(ScaledS)

template <ScaledVariant variant> struct ScaledByAlpha : Scaled<variant> {
  explicit ScaledByAlpha(const AttentionLayer& layer) : Scaled<variant>(layer) {
    this->add_parameter("alpha", this->learned, {1});
  }
};

struct ScaledAlpha : ScaledByAlpha<ScaledVariant::alpha> {
  static constexpr KindTraits traits = {.name = "scaled-alpha", .title = "Scaled Attention (alpha)"};
  using ScaledByAlpha::ScaledByAlpha;
};
PURSUIT_ATTENTION_KIND(ScaledAlpha)

struct ScaledAlphaAsym : ScaledByAlpha<ScaledVariant::alpha_asym> {
  static constexpr KindTraits traits = {.name = "scaled-alpha-asym",
                                        .title = "Scaled Attention (alpha, asymmetric)"};
  using ScaledByAlpha::ScaledByAlpha;
};
PURSUIT_ATTENTION_KIND(ScaledAlphaAsym)

struct ScaledAlphaSym : ScaledByAlpha<ScaledVariant::alpha_sym> {
  static constexpr KindTraits traits = {
      .name = "scaled-alpha-sym", .title = "Scaled Attention (alpha, symmetric)", .shares_queries = true};
  using ScaledByAlpha::ScaledByAlpha;
};
PURSUIT_ATTENTION_KIND(ScaledAlphaSym)

}  // namespace

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

}  // namespace pursuit::nn
