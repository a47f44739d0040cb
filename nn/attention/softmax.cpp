#include "engine/ops.h"
#include "nn/attention/kind.h"

namespace pursuit::nn {

namespace {

struct Softmax : AttentionKind {
  static constexpr KindTraits traits = {.name = "softmax", .has_cache = true};
  using AttentionKind::AttentionKind;

  Tensor mix(const Tensor& packed, const Tensor&) const override {
    return attention(packed, *softmax_options());
  }
  std::optional<AttentionOptions> softmax_options() const override { return {{.causal = layer().causal}}; }
};
PURSUIT_ATTENTION_KIND(Softmax)

}  // namespace

}  // namespace pursuit::nn
