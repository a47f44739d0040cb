#include "nn/attention/functions.h"

namespace pursuit::nn {

Tensor part(const Tensor& qkv, int64_t i) { return qkv.select(2, i).permute({0, 2, 1, 3}); }

Tensor pack(const std::vector<Tensor>& parts) { return stack(parts, 0).permute({1, 3, 0, 2, 4}); }

Tensor split_heads(const Tensor& x, int64_t heads) {
  return x.reshape({x.size(0), x.size(1), heads, x.size(2) / heads}).permute({0, 2, 1, 3});
}

Tensor merge_heads(const Tensor& x) {
  return x.permute({0, 2, 1, 3}).reshape({x.size(0), x.size(2), x.size(1) * x.size(3)});
}

void check_packed(const char* where, const Tensor& qkv, int64_t least_parts) {
  if (qkv.ndim() != 5 || qkv.size(2) < least_parts || qkv.size(2) > 3)
    fail(where, "got " + qkv.str() + ", need [batch, tokens, 3 (q, k, v), heads, head_dim]");
}

Tensor attention_weights(const Tensor& q, const Tensor& k, double scale, bool causal) {
  const Tensor scores = matmul(q, k.transpose(-1, -2)) * scale;
  if (!causal || q.size(2) == 1) return softmax(scores);  // the last token sees all
  const int64_t n = k.size(2);
  const Tensor seen = lower_triangle(n, k.dtype(), k.device()).slice(0, n - q.size(2), n);
  return softmax(scores + log(seen));  // log 0 = -inf
}

}  // namespace pursuit::nn
