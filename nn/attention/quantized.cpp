#include <cmath>

#include "nn/attention/attention.h"
#include "nn/attention/functions.h"
#include "nn/observer.h"

namespace pursuit::nn {

AttentionQuantizers::AttentionQuantizers(bool own_queries, bool by_softmax) : own_queries_(own_queries) {
  if (own_queries) add_module("queries", queries);
  add_module("keys", keys);
  add_module("values", values);
  if (by_softmax) {
    add_module("scores", scores);
    add_module("probabilities", probabilities);
  }
  add_module("context", context);
  add_module("output", output);
}

AttentionGrids AttentionQuantizers::grids() const {
  return {own_queries_ ? queries.grid() : keys.grid(), keys.grid(), values.grid(), scores.grid(),
          probabilities.grid()};
}

std::array<Tensor, 3> Attention::rounded_parts(const Tensor& packed) const {
  const Tensor k = quantizers_.keys(part(packed, -2));
  return {traits_.shares_queries ? k : quantizers_.queries(part(packed, 0)), k,
          quantizers_.values(part(packed, -1))};
}

Tensor Attention::softmax_of_scores(const Tensor& q, const Tensor& k) const {
  const AttentionOptions options = *kind_->softmax_options();
  const int64_t head_dim = dim_ / heads_;
  const double scale = 1 / std::sqrt(double(head_dim));
  Tensor scores = quantizers_.scores(matmul(q, k.transpose(-1, -2)) * scale);
  if (options.causal && q.size(2) > 1) {
    const int64_t n = k.size(2);
    scores =
        scores + log(lower_triangle(n, k.dtype(), k.device()).slice(0, n - q.size(2), n));  // log 0 = -inf
  }
  return softmax(scores);
}

Tensor Attention::rounded_weights(const Tensor& q, const Tensor& k) const {
  const AttentionOptions options = *kind_->softmax_options();
  Tensor p = softmax_of_scores(q, k);
  if (options.gamma != 0 || options.zeta != 1)
    p = clamp(affine(p, options.zeta - options.gamma, options.gamma), 0, 1);
  return quantizers_.probabilities(p);
}

Tensor Attention::quantized_end(const Tensor& mixed, const Tensor& x) const {
  const Tensor context = quantizers_.context.for_product(kind_->gated(mixed, x));
  return proj.quantized(context, quantizers_.context, &quantizers_.output);
}

Tensor Attention::quantized(const Tensor& x, const Quantizer& of_x) const {
  Observer<Attention>::show(*this, [&] { return x; });
  const Tensor packed = packed_of(qkv.quantized(x, of_x));
  const auto by_softmax = kind_->softmax_options();
  if (by_softmax && quantization()->run != QuantizedRun::calibrating)
    return quantized_end(quantized_attention(packed, *by_softmax, quantizers_.grids()), x);
  const auto [q, k, v] = rounded_parts(packed);
  if (by_softmax) return quantized_end(merge_heads(matmul(rounded_weights(q, k), v)), x);
  const auto back = [](const Tensor& t) { return t.permute({0, 2, 1, 3}); };
  const Tensor rounded =
      traits_.shares_queries ? stack({back(k), back(v)}, 2) : stack({back(q), back(k), back(v)}, 2);
  return quantized_end(kind_->mix(rounded, x), x);
}

}  // namespace pursuit::nn
