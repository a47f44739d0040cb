#include "engine/ops.h"
#include "nn/attention/kind.h"

namespace pursuit::nn {

namespace {

// Softmax attention that uses the keys as queries and has no query weights.
struct Symmetric : AttentionKind {
  static constexpr KindTraits traits = {.name = "symmetric", .shares_queries = true, .has_cache = true};
  using AttentionKind::AttentionKind;

  Tensor mix(const Tensor& packed, const Tensor&) const override {
    return attention(packed, *softmax_options());
  }
  std::optional<AttentionOptions> softmax_options() const override { return {{.causal = layer().causal}}; }
};
PURSUIT_ATTENTION_KIND(Symmetric)

}  // namespace

}  // namespace pursuit::nn
