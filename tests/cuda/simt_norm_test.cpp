// Layer norm's gradient in two dtypes on the simulated GPU.
#ifdef PURSUIT_SIMULATED
#include <doctest/doctest.h>

#include "engine/ops.h"

using namespace pursuit;

namespace {

// The gradients of x, w and the residual where the sum has two users, whose gradients arrive in either order.
std::vector<double> gradients(Device device, bool norm_first) {
  const auto leaf = [&](const Shape& shape, uint64_t stream, DType dtype) {
    return uniform(shape, -1, 1, 1, stream).to(dtype).to(device).requires_grad();
  };
  const Tensor x = leaf({5, 24}, 1, DType::bf16), w = leaf({16, 24}, 2, DType::bf16),
               residual = leaf({5, 16}, 3, DType::f32), weight = leaf({16}, 4, DType::f32),
               bias = leaf({16}, 5, DType::f32);
  const Tensor sum = linear(x, w, {}, residual);
  const Tensor norm = layer_norm(sum, weight, bias, 1e-6, DType::bf16).to(DType::f32), other = sum * 3.0;
  const Tensor factor = uniform({5, 16}, -1, 1, 1, 6).to(device);
  const Tensor y = norm_first ? norm + other : other + norm;
  (y * factor).sum().backward();
  std::vector<double> all;
  for (const Tensor& t : {x, w, residual, weight, bias}) {
    CHECK(!t.grad().needs_grad());
    for (const double v : t.grad().to_vector()) all.push_back(v);
  }
  return all;
}

}  // namespace

TEST_CASE("layer_norm on the GPU: its gradient in bf16 is that of all users of its input") {
  for (const bool norm_first : {false, true}) {
    const std::vector<double> want = gradients(cpu, norm_first), got = gradients(cuda_device(), norm_first);
    REQUIRE(want.size() == got.size());
    REQUIRE(want.size() > 500);
    for (size_t i = 0; i < want.size(); ++i) CHECK(got[i] == doctest::Approx(want[i]).epsilon(0.02).scale(2));
  }
}
#endif
