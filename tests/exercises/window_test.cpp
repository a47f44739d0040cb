#include <doctest/doctest.h>

#include <cmath>

#include "engine/ops.h"
#include "tests/differences.h"

using namespace pursuit;

namespace {

// Causal attention of q, k, v [B, H, N, D] in which a token sees itself and the width - 1 tokens before it:
// the lower triangle minus the same triangle shifted down by `width`.
Tensor windowed(const Tensor& q, const Tensor& k, const Tensor& v, int64_t width) {
  const int64_t n = q.size(2), hidden = std::min(width, n);
  const Tensor triangle = lower_triangle(n, DType::f32, cpu);
  const Tensor too_far =
      concat({zeros({hidden, n}), triangle.slice(0, 0, n - hidden)}, 0);  // row i: columns up to i - width
  const Tensor scores = matmul(q, k.transpose(-2, -1)) / std::sqrt(double(q.size(3)));
  return matmul(softmax(where(triangle - too_far == 1, scores, full({}, -INFINITY))), v);
}

}  // namespace

TEST_CASE("exercise: a window of all tokens is causal attention, one of a single token gives its value") {
  const int64_t batch = 2, n = 19, heads = 3, dim = 8;
  const Tensor qkv = normal({batch, n, 3, heads, dim}, 0, 1, 1, 1);
  const Tensor parts = qkv.permute({2, 0, 3, 1, 4});
  const Tensor fused = attention(qkv, {.causal = true}).reshape({batch, n, heads, dim}).permute({0, 2, 1, 3});
  CHECK(largest_difference(windowed(parts[0], parts[1], parts[2], n), fused) < 1e-6);
  CHECK(largest_difference(windowed(parts[0], parts[1], parts[2], 1), parts[2]) < 1e-6);
  // With width 4 the first four tokens see all tokens before them; later tokens do not.
  const Tensor four = windowed(parts[0], parts[1], parts[2], 4);
  CHECK(largest_difference(four.slice(2, 0, 4), fused.slice(2, 0, 4)) < 1e-6);
  CHECK(largest_difference(four.slice(2, 4, n), fused.slice(2, 4, n)) > 1e-2);
}
