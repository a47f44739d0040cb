#include "engine/ops.h"
#include "nn/attention/functions.h"
#include "nn/attention/kind.h"

namespace pursuit::nn {

namespace {

// Principal attention pursuit (Teo & Nguyen 2024) with the keys as queries.
struct Rpc : AttentionKind {
  static constexpr KindTraits traits = {
      .name = "rpc", .title = "RPC-Attention", .shares_queries = true, .iterates = true};
  using Options = RpcOptions;

  template <class O, class F> static void for_each_option(O& o, const F& f) {
    f("iterations", o.iterations, "iterations", Range{1, 1000});
    f("lambda", o.lambda, "weight of the sparse part", above(0, 1e6));
    f("threshold", o.threshold, "");
    f("mu-width", o.mu_width, "the width in mu = N width / (4 |K|_1)");
    f("dual-sign", o.dual_sign, "");
    f("mu-scope", o.mu_scope, "mu", OfCausal());
    f("detach-mu", o.detach_mu, "no gradient through mu");
    f("shrink-every-iteration", o.shrink_every_iteration,
      "soft threshold in every iteration, not only the last");
  }

  Rpc(const AttentionLayer& layer, const Options& o) : AttentionKind(layer), options(o) {
    options.causal = layer.causal;
  }

  Tensor mix(const Tensor& packed, const Tensor&) const override { return rpc_attention(packed, options); }

  Tensor probabilities(const Tensor& packed, int64_t queries) const override {
    const Tensor keys = rpc_last_keys(packed, options).to(packed.dtype());
    return softmax_of(packed.size(2) == 2 ? keys : part(packed, 0), keys, queries);
  }

  Options options;
};
PURSUIT_ATTENTION_KIND(Rpc)

// The same with separate queries (section E.10 of the paper).
struct AsymmetricRpc : Rpc {
  static constexpr KindTraits traits = {
      .name = "rpc-asymmetric", .title = "asymmetric RPC-Attention", .iterates = true};
  using Rpc::Rpc;
};
PURSUIT_ATTENTION_KIND(AsymmetricRpc)

}  // namespace

}  // namespace pursuit::nn
