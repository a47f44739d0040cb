// Attention written from operators, beside the fused operator: the same numbers, less memory, less time.
#include <chrono>
#include <cmath>
#include <cstdio>

#include "apps/command/command_line.h"
#include "engine/ops.h"

using namespace pursuit;

// softmax(q k^T / sqrt(D)) v of every head, for packed projections qkv [B, N, 3, H, D].
Tensor from_operators(const Tensor& qkv, bool causal) {
  const int64_t batch = qkv.size(0), n = qkv.size(1), heads = qkv.size(3), width = qkv.size(4);
  const Tensor parts = qkv.permute({2, 0, 3, 1, 4});  // [3, B, H, N, D]
  const Tensor q = parts[0], k = parts[1], v = parts[2];
  Tensor scores = matmul(q, k.transpose(-2, -1)) / std::sqrt(double(width));  // [B, H, N, N]
  if (causal) {
    const Tensor seen = lower_triangle(n, scores.dtype(), scores.device()) == 1;
    scores = where(seen, scores, full({}, -INFINITY, scores.dtype(), scores.device()));
  }
  return matmul(softmax(scores), v).permute({0, 2, 1, 3}).reshape({batch, n, heads * width});
}

struct Result {
  Tensor y, gradient;
  double held, seconds;  // MiB that backward needs; forward and backward
};

template <class F> Result run(const F& attend, const Tensor& qkv, const Tensor& cotangent) {
  Tensor leaf = qkv;
  leaf.requires_grad();
  const auto begin = std::chrono::steady_clock::now();
  const int64_t before = memory_stats().allocated;
  const Tensor y = attend(leaf);
  const int64_t held = memory_stats().allocated - before - y.bytes();
  y.backward(cotangent);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  return {y.detach(), leaf.grad(), double(held) / (1 << 20), seconds.count()};
}

double distance(const Tensor& a, const Tensor& b) { return abs(a - b).max().item() / abs(b).max().item(); }

void compare(uint64_t seed) {
  const int64_t batch = 2, n = 512, heads = 4, width = 32;
  const Tensor qkv = normal({batch, n, 3, heads, width}, 0, 1, seed, 1);
  const Tensor cotangent = normal({batch, n, heads * width}, 0, 1, seed, 2);
  for (const bool causal : {false, true}) {
    const auto by_operators = [&](const Tensor& x) { return from_operators(x, causal); };
    const auto fused = [&](const Tensor& x) { return attention(x, {.causal = causal}); };
    run(by_operators, qkv, cotangent), run(fused, qkv, cotangent);  // warm
    const Result a = run(by_operators, qkv, cotangent), b = run(fused, qkv, cotangent);
    std::printf("%s\n  from operators: %6.2f MiB held for backward, %6.2f ms\n",
                causal ? "causal" : "every token sees every other", a.held, 1e3 * a.seconds);
    std::printf("  fused:          %6.2f MiB held for backward, %6.2f ms\n", b.held, 1e3 * b.seconds);
    std::printf("difference %.2g of the result, %.2g of the gradient\n", distance(b.y, a.y),
                distance(b.gradient, a.gradient));
  }
}

int main(int argc, char** argv) {
  return apps::run_with_seed(argc, argv, "Attention written from operators, beside the fused operator",
                             compare);
}
