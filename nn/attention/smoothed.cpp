#include <cmath>

#include "engine/ops.h"
#include "nn/attention/functions.h"
#include "nn/attention/kind.h"

namespace pursuit::nn {

namespace {

// Symmetric attention on keys that are smoothed by their own attention, (1 - a) K + a softmax(K K^T /
// sqrt(D)) K with a learned number a. The control of RPC-Attention, whose low-rank part is such a mean too:
// it has neither iterations nor a sparse part.
struct Smoothed : AttentionKind {
  static constexpr KindTraits traits = {
      .name = "smoothed", .title = "attention on smoothed keys", .shares_queries = true};

  explicit Smoothed(const AttentionLayer& layer) : AttentionKind(layer) {
    add_parameter("smoothing", amount, {1});
  }

  Tensor mix(const Tensor& packed, const Tensor&) const override {
    return attention(pack({keys(packed), part(packed, -1)}), {.causal = layer().causal});
  }

  std::pair<Tensor, Tensor> queries_and_keys(const Tensor& packed) const override {
    const Tensor smoothed = keys(packed);
    return {smoothed, smoothed};
  }

  Tensor keys(const Tensor& packed) const {
    const Tensor k = part(packed, -2);
    const Tensor weights = attention_weights(k, k, 1 / std::sqrt(double(k.size(3))), layer().causal);
    return k + amount.to(k.dtype()) * (matmul(weights, k) - k);
  }

  Tensor amount;
};
PURSUIT_ATTENTION_KIND(Smoothed)

}  // namespace

}  // namespace pursuit::nn
