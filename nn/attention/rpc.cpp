#include <cmath>

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
    // Where every token sees all others, mu is of all.
    if (!layer.causal) options.mu_scope = RpcOptions::MuScope::window;
  }

  Tensor mix(const Tensor& packed, const Tensor&) const override { return rpc_attention(packed, options); }

  std::pair<Tensor, Tensor> queries_and_keys(const Tensor& packed) const override {
    const Tensor keys = rpc_last_keys(packed, options).to(packed.dtype());
    return {packed.size(2) == 2 ? keys : part(packed, 0), keys};
  }

  std::vector<PursuitStep> pursuit(const Tensor& packed) const override {
    return rpc_iterations(packed, options);
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

// The thresholds lambda mu or lambda / mu: [B, H, 1, 1], or [B, H, N, 1] for one of every prefix.
Tensor thresholds(const Tensor& keys, const RpcOptions& o) {
  const int64_t n = keys.size(2), d = keys.size(3);
  const double width = double(o.mu_width == RpcOptions::MuWidth::model ? keys.size(1) * d : d);
  const Tensor by_token = sum(abs(keys), {3}, true);
  const bool prefix = o.mu_scope == RpcOptions::MuScope::prefix;
  const Tensor l1 = prefix ? cumsum(by_token, 2) : sum(by_token, {2}, true);
  const Tensor tokens = prefix ? (arange(n, DType::i64, keys.device()).to(keys.dtype()) + 1.0).reshape({n, 1})
                               : full({1, 1}, double(n), keys.dtype(), keys.device());
  const Tensor mu = tokens * (width / 4) / l1;
  return o.threshold == RpcOptions::Threshold::product ? mu * o.lambda : o.lambda / mu;
}

}  // namespace

std::vector<PursuitStep> rpc_iterations(const Tensor& packed, const RpcOptions& options) {
  check_packed("rpc_iterations", packed, 2);
  const Tensor k = part(packed, -2), v = part(packed, -1), tau = thresholds(k, options);
  const double scale = options.scale != 0 ? options.scale : 1 / std::sqrt(double(k.size(3)));
  std::vector<PursuitStep> steps;
  Tensor low = zeros_like(k), dual = low;
  for (int t = 1; t <= options.iterations; ++t) {
    const Tensor x = k - low + dual;
    const bool shrinks = options.shrink_every_iteration || t == options.iterations;
    const Tensor sparse = shrinks ? soft_threshold(x, tau) : x, rest = k - sparse;
    const Tensor z = options.dual_sign == RpcOptions::DualSign::plus ? rest + dual : rest - dual;
    const Tensor p = attention_weights(packed.size(2) == 2 ? z : part(packed, 0), z, scale, options.causal);
    low = matmul(p, v);
    dual = dual + k - low - sparse;
    steps.push_back({low, sparse});
  }
  return steps;
}

}  // namespace pursuit::nn
