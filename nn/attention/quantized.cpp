#include <cmath>
#include <vector>

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

Tensor Attention::rounded(const Tensor& packed) const {
  const auto [q, k, v] = rounded_parts(packed);
  return pack(traits_.shares_queries ? std::vector{k, v} : std::vector{q, k, v}).contiguous();
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
  return quantizers_.probabilities(kind_->weights(softmax_of_scores(q, k)));
}

Tensor Attention::quantized_end(const Tensor& mixed, const Tensor& x) const {
  const Tensor context = quantizers_.context.for_product(kind_->gated(mixed, x));
  return proj.quantized(context, quantizers_.context, &quantizers_.output);
}

Tensor Attention::quantized(const Tensor& x, const Quantizer& of_x) const {
  Observer<Attention>::show(*this, [&] { return of_x(x); });
  const Tensor packed = packed_of(qkv.quantized(x, of_x));
  const auto by_softmax = kind_->softmax_options();
  if (by_softmax && quantization()->run != QuantizedRun::calibrating)
    return quantized_end(quantized_attention(packed, *by_softmax, quantizers_.grids()), x);
  if (!by_softmax) return quantized_end(kind_->mix(rounded(packed), x), x);
  const auto [q, k, v] = rounded_parts(packed);
  return quantized_end(merge_heads(matmul(rounded_weights(q, k), v)), x);
}

}  // namespace pursuit::nn
