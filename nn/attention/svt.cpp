#include <algorithm>
#include <cmath>

#include "engine/ops.h"
#include "nn/attention/functions.h"
#include "nn/attention/kind.h"

namespace pursuit::nn {

namespace {

void check(const Tensor& kv, const SvtAttentionOptions& o) {
  if (kv.ndim() != 5 || kv.size(2) != 2) fail("svt_attention", "got " + kv.str() + ", need [B, N, 2, H, D]");
  if (o.iterations < 1 || !(o.lambda >= 0))
    fail("svt_attention", "got " + std::to_string(o.iterations) + " iterations and lambda " +
                              std::to_string(o.lambda) + ", need at least 1 and 0 (the default) or more");
}

// Returns L of the last iteration. With `steps` it also keeps every iteration's L and S.
Tensor iterate(const Tensor& kv, const SvtAttentionOptions& options, std::vector<PursuitStep>* steps) {
  check(kv, options);
  const int64_t n = kv.size(1), d = kv.size(4);
  const Tensor keys = part(kv, 0).contiguous();  // [B, H, N, D]
  // tau = 1 / mu = 4 mean(|K|), without a division, so that a head of zeros stays finite.
  const Tensor tau = mean(abs(options.detach_mu ? keys.detach() : keys), {2, 3}, true) * 4.0;  // [B, H, 1, 1]
  const double lambda = options.lambda > 0 ? options.lambda : 1 / std::sqrt(double(std::max(n, d)));
  const Tensor per_head = tau.reshape({kv.size(0), kv.size(3)});
  Tensor low = singular_value_threshold(keys, per_head), dual;
  for (int i = 1; i < options.iterations || steps; ++i) {
    // S = soft_threshold(X), and X - S is the next dual.
    const Tensor rest = keys - low, x = dual.defined() ? rest + dual : rest;
    const Tensor sparse = soft_threshold(x, tau * lambda);
    if (steps) steps->push_back({low, sparse});
    if (i == options.iterations) break;
    dual = x - sparse;
    low = singular_value_threshold(keys - sparse + dual, per_head);
  }
  return low;
}

// RPC-Attention with exact singular value thresholding.
struct Svt : AttentionKind {
  static constexpr KindTraits traits = {.name = "svt",
                                        .title = "RPC-Attention with singular value thresholding",
                                        .shares_queries = true,
                                        .may_be_causal = false,
                                        .iterates = true};
  struct Options {
    int iterations = SvtAttentionOptions().iterations;
  };

  template <class O, class F> static void for_each_option(O& o, const F& f) {
    f("iterations", o.iterations, "iterations", Range{1, 1000});
  }

  Svt(const AttentionLayer& layer, const Options& o)
      : AttentionKind(layer), options{.iterations = o.iterations} {}

  Tensor mix(const Tensor& packed, const Tensor&) const override { return svt_attention(packed, options); }

  std::pair<Tensor, Tensor> queries_and_keys(const Tensor& packed) const override {
    const Tensor keys = svt_keys(packed, options);
    return {keys, keys};
  }

  std::vector<PursuitStep> pursuit(const Tensor& packed) const override {
    std::vector<PursuitStep> steps;
    iterate(packed, options, &steps);
    return steps;
  }

  SvtAttentionOptions options;
};
PURSUIT_ATTENTION_KIND(Svt)

}  // namespace

Tensor svt_keys(const Tensor& kv, const SvtAttentionOptions& options) {
  return iterate(kv, options, nullptr);
}

Tensor svt_attention(const Tensor& kv, const SvtAttentionOptions& options) {
  const Tensor keys = svt_keys(kv, options).permute({0, 2, 1, 3});  // [B, N, H, D]
  return attention(stack({keys, kv.select(2, 1)}, 2), {.scale = options.scale});
}

}  // namespace pursuit::nn
