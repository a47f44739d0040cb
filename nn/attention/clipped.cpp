#include "engine/ops.h"
#include "nn/attention/kind.h"

namespace pursuit::nn {

namespace {

// Clipped softmax (Bondarenko et al. 2023): clip((zeta - gamma) p + gamma, 0, 1).
struct Clipped : AttentionKind {
  static constexpr KindTraits traits = {
      .name = "clipped", .title = "clipped softmax attention", .has_cache = true};
  struct Options {
    double gamma = -0.03, zeta = 1.03;
  };

  template <class O, class F> static void for_each_option(O& o, const F& f) {
    f("gamma", o.gamma,
      "what a probability of 0 becomes before the clip; from -zeta / (keys - 1) down, equal "
      "probabilities become 0, and heads may stay so",
      Range{-1e3, 0});
    f("zeta", o.zeta, "what a probability of 1 becomes before the clip", Range{1, 1e3});
  }

  Clipped(const AttentionLayer& layer, const Options& o) : AttentionKind(layer), options(o) {}

  Tensor mix(const Tensor& packed, const Tensor&) const override {
    return attention(packed, *softmax_options());
  }
  std::optional<AttentionOptions> softmax_options() const override {
    return {{.causal = layer().causal, .gamma = options.gamma, .zeta = options.zeta}};
  }

  Tensor weights(const Tensor& p) const override {
    return clamp(affine(p, options.zeta - options.gamma, options.gamma), 0, 1);
  }

  Options options;
};
PURSUIT_ATTENTION_KIND(Clipped)

}  // namespace

}  // namespace pursuit::nn
