#include <doctest/doctest.h>

#include <cmath>

#include "engine/ops.h"
#include "tests/needs.h"

using namespace pursuit;

namespace {

// |x - want| over |want|.
double distance(const Tensor& x, const Tensor& want) {
  const std::vector<double> a = x.to(cpu).to_vector(), b = want.to_vector();
  REQUIRE(a.size() == b.size());
  double error = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    error += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(error / norm);
}

struct Run {
  Tensor y, gradient;
};
Run run(const Tensor& kv, const RpcOptions& options, const Tensor& mu) {
  Tensor x = kv.detach();
  x.requires_grad();
  const Tensor y = rpc_attention(x, options, mu);
  y.backward(uniform(y.shape(), -1, 1, 1, 2).to(kv.dtype()).to(kv.device()));
  return {y.detach(), x.grad()};
}

// The GPU against the CPU in f64.
void compare(int64_t n, int64_t d, const RpcOptions& options, const Tensor& mu = {}) {
  for (DType dtype : {DType::f32, DType::bf16}) {
    CAPTURE(n);
    CAPTURE(d);
    CAPTURE(name_of(dtype));
    const Tensor kv = uniform({1, n, 2, 1, d}, -2, 2, 1, 1).to(dtype);
    const Run want = run(kv.to(DType::f64), options, mu);
    const Run got = run(kv.to(cuda_device()), options, mu.defined() ? mu.to(cuda_device()) : mu);
    const double bar = dtype == DType::f32 ? 1e-5 : 0.05;
    CHECK(distance(got.y, want.y) < bar);
    CHECK(distance(got.gradient, want.gradient) < bar);
  }
}

}  // namespace

GPU_TEST_CASE("rpc_last_keys on the GPU: of heads with a kernel and of wider ones, for which there is none") {
  for (const int64_t d : {64, 130}) {
    CAPTURE(d);
    const RpcOptions options{.iterations = 3, .lambda = 2, .scale = 0.02};
    const Tensor kv = uniform({2, 9, 2, 2, d}, -2, 2, 1, 1);
    const Tensor want = rpc_last_keys(kv.to(DType::f64), options);
    const Tensor got = rpc_last_keys(kv.to(cuda_device()), options);
    CHECK(got.device() == cuda_device());
    CHECK(got.shape() == Shape{2, 2, 9, d});
    CHECK(distance(got, want) < 1e-5);
  }
}

TEST_CASE("rpc_attention: options that no kernel PCA has") {
  const Tensor kv = normal({1, 5, 2, 1, 4}, 0, 1, 1, 1);
  const auto refuses = [&](const RpcOptions& options, const char* why) {
    CHECK_THROWS_WITH_AS(rpc_attention(kv, options), doctest::Contains(why), Error);
    CHECK_THROWS_WITH_AS(rpc_last_keys(kv, options), doctest::Contains(why), Error);
  };
  refuses({.scale = -0.25}, "scale is -0.250000, need at least 0");
  refuses({.scale = std::nan("")}, "scale is nan");
  refuses({.iterations = 0}, "iterations is 0, need at least 1");
  refuses({.lambda = 0}, "lambda is 0.000000, need more than 0");
}

// Operator samples are small; these are around the lengths where the GPU's kernels change.
GPU_TEST_CASE("rpc_attention on the GPU: heads that fit on one multiprocessor and heads that do not") {
  using O = RpcOptions;
  compare(256, 16, {.iterations = 2, .lambda = 2});
  compare(257, 3, {.iterations = 2, .lambda = 2, .causal = true});
  compare(170, 64, {.iterations = 2, .lambda = 2, .scale = 0.03});  // f32: backward does not fit
  compare(70, 100, {.iterations = 2, .lambda = 2, .scale = 0.02, .causal = true});
  compare(9, 130, {.iterations = 3, .lambda = 2, .scale = 0.02});  // plain operators
  compare(100, 16, {.iterations = 2, .lambda = 2, .causal = true, .mu_scope = O::MuScope::prefix});
  compare(300, 8, {.iterations = 2, .lambda = 2, .causal = true, .mu_scope = O::MuScope::prefix});
  const Tensor mu = full({1, 1}, 0.8);
  compare(258, 8,
          {.iterations = 3,
           .lambda = 0.5,
           .threshold = O::Threshold::quotient,
           .dual_sign = O::DualSign::plus,
           .shrink_every_iteration = false},
          mu);
}
