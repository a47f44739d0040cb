#include "engine/solve/pcp.h"

#include <doctest/doctest.h>

#include <cmath>

#include "engine/base/error.h"
#include "engine/ops.h"
#include "engine/solve/gradcheck.h"
#include "engine/solve/linalg.h"
#include "nn/attention/functions.h"

using namespace pursuit;

namespace {

double frobenius(const Tensor& x) { return std::sqrt(sum(square(x)).item()); }

// Rank 2 plus 5 % of entries of magnitude 1 to 5.
struct Planted {
  Tensor low_rank, sparse;
};
Planted plant(int64_t batch, int64_t n1, int64_t n2, DType type) {
  const Tensor l =
      matmul(normal({batch, n1, 2}, 0, 1, 21, 0, type), normal({batch, 2, n2}, 0, 1, 21, 1, type));
  const Tensor where = uniform({batch, n1, n2}, -1, 1, 21, 2, type);
  return {l, soft_threshold(where, full({}, 0.95, type)) * 80.0 +
                 soft_threshold(where, full({}, 0.95, type)) * 20.0};
}

}  // namespace

TEST_CASE("principal component pursuit recovers a planted low-rank and a sparse part") {
  for (const DType type : {DType::f64, DType::f32}) {
    const auto [l, s] = plant(3, 60, 40, type);
    const PcpResult r = principal_component_pursuit(l + s);
    CHECK(r.converged);
    CHECK(frobenius(r.low_rank - l) < 2e-3 * frobenius(l));
    CHECK(frobenius(r.sparse - s) < 2e-3 * frobenius(s));
    for (size_t b = 0; b < 3; ++b) {
      CHECK(r.iterations[b] == int(r.residuals[b].size()));
      CHECK(r.residuals[b].back() <= (type == DType::f64 ? 1e-7 : 1e-5));
    }
    const Tensor sigma = svd(r.low_rank).s;
    CHECK(sigma.select(0, 1).select(0, 2).item() < 1e-3 * sigma.select(0, 1).select(0, 0).item());
  }
}

TEST_CASE("principal component pursuit iterates by its formula") {
  const auto [low, sparse] = plant(2, 12, 17, DType::f64);
  const Tensor m = low + sparse;
  for (int64_t b = 0; b < 2; ++b) {
    const Tensor one = m.select(0, b);
    const double mu = 12 * 17 / (4 * sum(abs(one)).item()), lambda = 1 / std::sqrt(17.0);
    Tensor l, s = zeros({12, 17}, DType::f64), y = s;
    for (int i = 0; i < 5; ++i) {
      l = singular_value_threshold(one - s + y / mu, 1 / mu);
      s = soft_threshold(one - l + y / mu, full({}, lambda / mu, DType::f64));
      y = y + (one - l - s) * mu;
    }
    const PcpResult r = principal_component_pursuit(m, {.max_iterations = 5});
    CHECK_FALSE(r.converged);
    CHECK(frobenius(r.low_rank.select(0, b) - l) < 1e-11);
    CHECK(frobenius(r.sparse.select(0, b) - s) < 1e-11);
    CHECK(frobenius(r.dual.select(0, b) - y) < 1e-11);
    CHECK(r.residuals[size_t(b)].back() == doctest::Approx(frobenius(one - l - s) / frobenius(one)));
    // A matrix alone runs as in a batch.
    const PcpResult alone = principal_component_pursuit(one), together = principal_component_pursuit(m);
    CHECK(alone.low_rank.shape() == Shape{12, 17});
    CHECK(alone.iterations[0] == together.iterations[size_t(b)]);
    CHECK(frobenius(alone.low_rank - together.low_rank.select(0, b)) < 1e-10);
  }
}

TEST_CASE("principal component pursuit of special input") {
  const PcpResult nothing = principal_component_pursuit(zeros({2, 4, 5}));
  CHECK(nothing.converged);
  CHECK(nothing.iterations[0] == 0);
  CHECK(frobenius(nothing.low_rank) == 0);
  CHECK(principal_component_pursuit(zeros({0, 4, 5})).converged);
  CHECK_THROWS_AS(principal_component_pursuit(full({3, 3}, NAN)), Error);
  CHECK_THROWS_AS(principal_component_pursuit(zeros({4})), Error);
  CHECK_THROWS_AS(principal_component_pursuit(ones({3, 3}), {.mu = -1}), Error);
}

TEST_CASE("the keys of svt attention are the iterates of principal component pursuit") {
  const Tensor kv = normal({2, 9, 2, 3, 4}, 0, 1, 31, 0, DType::f64);
  const Tensor keys = nn::svt_keys(kv, {.iterations = 3});
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t h = 0; h < 3; ++h) {
      const Tensor k = kv.select(0, b).select(1, 0).select(1, h);
      const PcpResult r = principal_component_pursuit(k, {.max_iterations = 3});
      CHECK(frobenius(keys.select(0, b).select(0, h) - r.low_rank) < 1e-11);
      const Tensor p = softmax(matmul(r.low_rank, r.low_rank.transpose(0, 1)) * 0.5);
      const Tensor x = matmul(p, kv.select(0, b).select(1, 1).select(1, h));
      const Tensor got = nn::svt_attention(kv, {.iterations = 3}).select(0, b).slice(1, 4 * h, 4 * h + 4);
      CHECK(frobenius(got - x) < 1e-10);
    }
  const auto report = check_gradient(
      [](const std::vector<Tensor>& in) { return nn::svt_attention(in[0], {.iterations = 3}); },
      {kv.slice(0, 0, 1)});
  INFO(report.message);
  CHECK(report.ok);
  CHECK(frobenius(nn::svt_attention(zeros({1, 5, 2, 2, 3}))) == 0);
  CHECK_THROWS_AS(nn::svt_attention(zeros({1, 5, 3, 2, 3})), Error);
}
