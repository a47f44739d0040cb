// Principal component pursuit on the simulated GPU, against the CPU, which iterates in f64.
#ifdef PURSUIT_SIMULATED
#include <doctest/doctest.h>

#include <cmath>

#include "engine/base/error.h"
#include "engine/ops.h"
#include "engine/solve/pcp.h"

using namespace pursuit;

namespace {

double norm(const Tensor& x) { return std::sqrt(sum(square(x.to(cpu).to(DType::f64))).item()); }

// Rank 2 plus a few large entries. The matrices of the batch differ in magnitude, so they converge at
// different iterations.
Tensor planted(int64_t batch, int64_t n1, int64_t n2) {
  const Tensor low = matmul(normal({batch, n1, 2}, 0, 1, 51, 0), normal({batch, 2, n2}, 0, 1, 51, 1));
  const Tensor sparse = soft_threshold(uniform({batch, n1, n2}, -1, 1, 51, 2), full({}, 0.95)) * 100.0;
  return (low + sparse) * from_vector(std::vector<float>{1, 1e-3f, 20}, {3, 1, 1}).slice(0, 0, batch);
}

void compare(const PcpResult& got, const PcpResult& want, double tolerance) {
  CHECK(got.converged == want.converged);
  for (size_t b = 0; b < want.iterations.size(); ++b) {
    CAPTURE(b);
    // Rounding may carry a residual over the tolerance an iteration early or late.
    CHECK(std::abs(got.iterations[b] - want.iterations[b]) <= 1);
    CHECK(got.residuals[b].size() == size_t(got.iterations[b]));
    const int64_t i = int64_t(b);
    for (const auto part : {&PcpResult::low_rank, &PcpResult::sparse, &PcpResult::dual}) {
      const Tensor g = (got.*part).to(cpu).select(0, i), w = (want.*part).select(0, i);
      CHECK(norm(g - w) <= tolerance * norm(w));
    }
  }
}

}  // namespace

TEST_CASE("simulated GPU: principal component pursuit") {
  const Tensor m = planted(3, 18, 14), gpu = m.to(cuda_device());
  const PcpResult want = principal_component_pursuit(m), got = principal_component_pursuit(gpu);
  CHECK(want.converged);
  CHECK(want.iterations[0] != want.iterations[2]);
  compare(got, want, 1e-4);
  // A matrix alone runs as in its batch.
  const PcpResult alone = principal_component_pursuit(gpu.select(0, 2));
  CHECK(alone.low_rank.shape() == Shape{18, 14});
  CHECK(alone.iterations[0] == got.iterations[2]);
  CHECK(norm(alone.low_rank - got.low_rank.select(0, 2)) == 0);
  CHECK(norm(alone.dual - got.dual.select(0, 2)) == 0);
  // Stopped before, between and behind two looks of the host.
  for (const int most : {1, 8, 11}) {
    const PcpOptions some = {.max_iterations = most};
    compare(principal_component_pursuit(gpu, some), principal_component_pursuit(m, some), 1e-5);
  }
  const PcpOptions given = {.lambda = 0.4, .mu = 0.7, .max_iterations = 9};
  compare(principal_component_pursuit(gpu.slice(0, 0, 1), given),
          principal_component_pursuit(m.slice(0, 0, 1), given), 1e-5);
}

TEST_CASE("simulated GPU: principal component pursuit of special input") {
  const Tensor m = planted(1, 9, 12), none = zeros({1, 9, 12});
  const PcpResult with_nothing = principal_component_pursuit(concat({none, m}, 0).to(cuda_device()));
  CHECK(with_nothing.converged);
  CHECK(with_nothing.iterations[0] == 0);
  CHECK(norm(with_nothing.low_rank.select(0, 0)) == 0);
  CHECK(norm(with_nothing.dual.select(0, 0)) == 0);
  CHECK(with_nothing.iterations[1] > 0);
  CHECK(principal_component_pursuit(zeros({0, 9, 12}).to(cuda_device())).converged);
  CHECK_FALSE(principal_component_pursuit(m.to(cuda_device()), {.max_iterations = 0}).converged);
  for (const double scale : {1e-25, 1e25}) {
    const PcpOptions some = {.max_iterations = 10};
    compare(principal_component_pursuit((m * scale).to(cuda_device()), some),
            principal_component_pursuit(m * scale, some), 1e-5);
  }
  CHECK_THROWS_AS(principal_component_pursuit(full({1, 3, 3}, NAN).to(cuda_device())), Error);
  CHECK_THROWS_AS(principal_component_pursuit(full({1, 3, 3}, INFINITY).to(cuda_device())), Error);
}
#endif
