#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "engine/base/error.h"
#include "engine/ops.h"
#include "engine/solve/gradcheck.h"
#include "engine/solve/linalg.h"
#include "tests/differences.h"
#include "tests/needs.h"

using namespace pursuit;

namespace {

Tensor from_svd(const Tensor& a, const Tensor& tau) {
  const auto [u, s, vt] = svd(a);
  Shape column = s.shape();
  column.insert(column.size() - 1, 1);
  return matmul(u * relu(s - tau).reshape(column), vt);
}

double frobenius(const Tensor& x) { return std::sqrt(sum(square(x)).item()); }

// Matrices [B, m, n] with the given singular values.
Tensor with_spectrum(int64_t m, int64_t n, const std::vector<double>& sigma, int64_t batch = 3) {
  const auto [u, s, vt] = svd(normal({batch, m, n}, 0, 1, 11, uint64_t(m * 1000 + n), DType::f64));
  std::vector<double> values;
  for (int64_t b = 0; b < batch; ++b) values.insert(values.end(), sigma.begin(), sigma.end());
  return matmul(u * from_vector(values, {batch, 1, int64_t(sigma.size())}), vt);
}

// |D - D_ref|_F / sigma_1, the worst of the batch.
double error(const Tensor& a, double tau, DType type) {
  const Tensor x = a.to(type);
  const Tensor want = from_svd(x.to(DType::f64), full({}, tau, DType::f64));
  const Tensor got = singular_value_threshold(x, tau).to(DType::f64);
  const Tensor top = svd(x.to(DType::f64)).s;
  double worst = 0;
  for (int64_t b = 0; b < a.size(0); ++b) {
    const double e = frobenius(got.select(0, b) - want.select(0, b));
    const double scale = std::max(top.select(0, b).select(0, 0).item(), 1e-300);
    worst = larger(worst, e / scale);
  }
  return worst;
}

}  // namespace

TEST_CASE("svd gives back the matrices, orthonormal factors and descending values") {
  for (const Shape& shape : {Shape{2, 7, 4}, Shape{3, 4, 9}, Shape{5, 5}, Shape{1, 6}}) {
    const Tensor a = normal(shape, 0, 1, 3, 1, DType::f64);
    const auto [u, s, vt] = svd(a);
    Shape column = s.shape();
    column.insert(column.size() - 1, 1);
    CHECK(frobenius(matmul(u * s.reshape(column), vt) - a) < 1e-12);
    const Tensor gram = matmul(vt, vt.transpose(-1, -2));
    for (const double v : sum(square(gram), {-1}).to_vector()) CHECK(v == doctest::Approx(1));
    const std::vector<double> values = s.to_vector();
    for (size_t i = 1; i < values.size(); ++i)
      if (i % size_t(s.shape().back())) CHECK(values[i] <= values[i - 1]);
  }
  CHECK_THROWS_AS(svd(full({2, 2}, std::nan(""), DType::f64)), Error);
}

GPU_TEST_CASE("on the GPU, svd, and singular value thresholding against it") {
  // Within what the library takes at once, and beyond; with a gradient to come eigenvectors threshold, else
  // signs.
  for (const Shape& shape : {Shape{3, 7, 4}, Shape{2, 2, 9, 32}, Shape{2, 50, 40}, Shape{2, 20, 33}}) {
    const Tensor a = normal(shape, 0, 1, 5, 1), gpu = a.to(cuda_device());
    const auto [u, s, vt] = svd(gpu);
    CHECK(frobenius(s.to(cpu) - svd(a).s) < 1e-5 * frobenius(s));
    CHECK(frobenius(from_svd(gpu, full({}, 0, DType::f32, gpu.device())) - gpu) < 1e-5 * frobenius(gpu));
    for (const bool recorded : {true, false}) {
      Tensor x = gpu.detach();
      if (recorded) x.requires_grad();
      const Tensor tau = full({}, 2, DType::f32, gpu.device());
      CHECK(frobenius(singular_value_threshold(x, tau).detach() - from_svd(gpu, tau)) <
            1e-5 * frobenius(gpu));
    }
  }
  CHECK_THROWS_AS(svd(full({2, 2}, NAN).to(cuda_device())), Error);
  CHECK(svd(zeros({2, 0, 3}).to(cuda_device())).vt.shape() == Shape{2, 0, 3});
}

TEST_CASE("singular value thresholding agrees with the singular value decomposition") {
  for (const Shape& shape :
       {Shape{3, 24, 16}, Shape{2, 12, 20}, Shape{20, 16, 16}, Shape{2, 1, 7}, Shape{2, 7, 1}, Shape{3, 2, 2},
        Shape{18, 33, 17}, Shape{2, 66, 65}, Shape{1, 197, 64}}) {
    const Tensor a = normal(shape, 0, 1, 5, 2, DType::f64);
    const double top = svd(a).s.select(0, 0).select(0, 0).item();
    for (const double share : {0.05, 0.3, 0.7, 1.5}) {
      CAPTURE(shape.str());
      CAPTURE(share);
      CHECK(error(a, share * top, DType::f64) < 1e-13);
      CHECK(error(a, share * top, DType::f32) < 5e-6);
    }
  }
  // Larger than what the vector lanes are for.
  CHECK(error(normal({1, 180, 170}, 0, 1, 5, 2, DType::f64), 10, DType::f64) < 1e-13);
}

TEST_CASE("singular value thresholding of special matrices") {
  const std::vector<double> repeated = {3, 3, 3, 1, 1, 1, 0.5, 0.5}, deficient = {2, 1, 0.5, 0, 0, 0, 0, 0};
  for (const auto& sigma : {repeated, deficient})
    for (const auto& [m, n] : {std::pair<int64_t, int64_t>{20, 8}, {8, 13}, {8, 8}})
      for (const double tau : {0.75, 0.2, 2.5}) {
        CHECK(error(with_spectrum(m, n, sigma), tau, DType::f64) < 1e-13);
        CHECK(error(with_spectrum(m, n, sigma), tau, DType::f32) < 2e-6);
      }
  // Decaying from 1 to 1e-4, at sigma_1 / tau = 10 and 100: an eigenvalue has lost kappa^2 ulp by squaring.
  std::vector<double> decaying;
  for (int i = 0; i < 32; ++i) decaying.push_back(std::pow(10, -4 * i / 31.0));
  CHECK(error(with_spectrum(96, 32, decaying), 0.1, DType::f32) < 5e-6);
  CHECK(error(with_spectrum(96, 32, decaying), 0.01, DType::f32) < 2e-5);
  CHECK(error(with_spectrum(96, 32, decaying), 0.01, DType::f64) < 1e-12);

  CHECK(frobenius(singular_value_threshold(zeros({2, 5, 4}), 0.5)) == 0);
  const Tensor a = normal({2, 9, 4}, 0, 1, 1, 1);
  CHECK(frobenius(singular_value_threshold(a, 0.0) - a) == 0);
  CHECK(frobenius(singular_value_threshold(a, 1e3)) == 0);
  CHECK(singular_value_threshold(zeros({0, 4, 3}), 1.0).shape() == Shape{0, 4, 3});
  CHECK(singular_value_threshold(zeros({2, 0, 3}), 1.0).shape() == Shape{2, 0, 3});
  // Matrices of exactly rank 1.
  for (const int64_t m : {8, 12, 16, 17, 33}) {
    const Tensor equal = uniform({1, 1, 20}, -1, 1, 3, 0, DType::f64).expand({1, m, 20});
    CHECK(error(equal, 0.5, DType::f64) < 1e-13);
    CHECK(error(equal, 0.5, DType::f32) < 2e-6);
  }
  // Far from 1: squares would overflow or vanish.
  for (const double scale : {1e-25, 1e25}) {
    const Tensor far = normal({2, 12, 7}, 0, 1, 1, 1, DType::f64) * scale;
    CHECK(error(far, 2 * scale, DType::f32) < 2e-6);
  }
  // A broken matrix spoils itself only, and visibly.
  const Tensor broken = concat({full({1, 9, 4}, std::numeric_limits<double>::infinity()), a}, 0);
  const Tensor d = singular_value_threshold(broken, 0.5);
  for (const double v : d.select(0, 0).to_vector()) CHECK(std::isnan(v));
  CHECK(frobenius(d.slice(0, 1, 3) - singular_value_threshold(a, 0.5)) < 1e-5);

  CHECK_THROWS_AS(singular_value_threshold(a, -1.0), Error);
  CHECK_THROWS_AS(singular_value_threshold(a, full({2}, -1)), Error);
  CHECK_THROWS_AS(singular_value_threshold(a, full({3}, 1)), Error);
  CHECK_THROWS_AS(singular_value_threshold(zeros({4}), 1.0), Error);
}

TEST_CASE("singular value thresholding takes a threshold for each matrix, any strides and bf16") {
  const Tensor a = normal({2, 3, 10, 6}, 0, 1, 7, 0, DType::f64);
  const Tensor tau = uniform({2, 3}, 0.5, 3, 7, 1, DType::f64);
  const Tensor d = singular_value_threshold(a, tau);
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t j = 0; j < 3; ++j) {
      const Tensor one = a.select(0, i).select(0, j), t = tau.select(0, i).select(0, j);
      CHECK(frobenius(d.select(0, i).select(0, j) - from_svd(one, t)) < 1e-12);
    }
  const Tensor turned = singular_value_threshold(a.transpose(2, 3), tau).transpose(2, 3);
  CHECK(frobenius(turned - d) < 1e-12);
  const Tensor rough = singular_value_threshold(a.to(DType::bf16), tau.to(DType::bf16));
  CHECK(rough.dtype() == DType::bf16);
  CHECK(frobenius(rough.to(DType::f64) - d) < 0.02 * frobenius(d));
}

TEST_CASE("the gradient of singular value thresholding") {
  const auto f = [](const std::vector<Tensor>& in) { return singular_value_threshold(in[0], in[1]); };
  for (const Shape& shape : {Shape{2, 7, 4}, Shape{2, 4, 7}, Shape{2, 5, 5}, Shape{1, 1, 5}}) {
    const auto report = check_gradient(
        f, {normal(shape, 0, 1, 3, 0, DType::f64), uniform({shape[0]}, 0.4, 1.2, 3, 1, DType::f64)});
    INFO(report.message);
    CHECK(report.ok);
  }
  // Repeated, vanishing and close singular values; the function is smooth there.
  for (const std::vector<double>& sigma :
       {std::vector<double>{3, 3, 3, 1, 1}, {2, 2, 0, 0, 0}, {2, 2 + 1e-9, 1, 0.3, 0}})
    for (const int64_t n : {5, 8}) {
      const auto report = check_gradient(
          f, {with_spectrum(8, n, n == 5 ? sigma : std::vector<double>{3, 3, 2, 2, 2, .5, 0, 0}, 2),
              full({2}, 0.6, DType::f64)});
      INFO(report.message);
      CHECK(report.ok);
    }
  // For zeros, tau = 0, and tau above all singular values: the gradient is 0, the upstream gradient, 0.
  for (const auto& [scale, tau, want] : {std::tuple{0.0, 0.5, 0.0}, {1.0, 0.0, 1.0}, {1.0, 1e3, 0.0}}) {
    Tensor a = normal({2, 6, 4}, 0, scale, 1, 0);
    a.requires_grad();
    singular_value_threshold(a, tau).backward(ones({2, 6, 4}));
    for (const double g : a.grad().to_vector()) CHECK(g == want);
  }
}

TEST_CASE("thresholding is the gradient of a convex function: its derivative is symmetric and shrinks") {
  Tensor a = normal({4, 30, 12}, 0, 1, 9, 0);
  a.requires_grad();
  const Tensor g = normal({4, 30, 12}, 0, 1, 9, 1), h = normal({4, 30, 12}, 0, 1, 9, 2);
  const auto derivative = [&](const Tensor& direction) {
    a.zero_grad();
    singular_value_threshold(a, 3.0).backward(direction);
    return a.grad();
  };
  const Tensor jg = derivative(g), jh = derivative(h);
  CHECK(sum(h * jg).item() == doctest::Approx(sum(g * jh).item()).epsilon(1e-4));
  CHECK(frobenius(jg) <= frobenius(g));
}
