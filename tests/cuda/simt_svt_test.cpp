// Singular value thresholding on the simulated GPU, on difficult spectra.
#ifdef PURSUIT_SIMULATED
#include <doctest/doctest.h>

#include <cmath>

#include "cuda/jacobi.cuh"
#include "engine/ops.h"
#include "engine/solve/linalg.h"
#include "tests/differences.h"

using namespace pursuit;

namespace {

double norm(const Tensor& x) { return std::sqrt(sum(square(x.to(DType::f64))).item()); }

// [m, n] with these singular values.
Tensor with_spectrum(int64_t m, int64_t n, const std::vector<double>& sigma, uint64_t stream) {
  const auto [u, s, vt] = svd(normal({m, n}, 0, 1, 41, stream, DType::f64));
  return matmul(u * from_vector(sigma, {1, int64_t(sigma.size())}), vt);
}
Tensor geometric(int64_t m, int64_t n, double last, uint64_t stream) {
  std::vector<double> sigma;
  for (int64_t i = 0; i < n; ++i) sigma.push_back(std::pow(last, double(i) / double(n - 1)));
  return with_spectrum(m, n, sigma, stream);
}
Tensor four_values(int64_t m, int64_t n, uint64_t stream) {
  std::vector<double> sigma;
  for (int64_t i = 0; i < n; ++i) sigma.push_back(1 - 0.3 * double(4 * i / n));
  return with_spectrum(m, n, sigma, stream);
}

struct Spectrum {
  const char* name;
  Tensor a;
};
std::vector<Spectrum> hard_spectra(int64_t m, int64_t n) {
  const Tensor low = matmul(normal({m, 5}, 0, 1, 41, 1, DType::f64), normal({5, n}, 0, 1, 41, 2, DType::f64));
  const Tensor sparse = soft_threshold(uniform({m, n}, -1, 1, 41, 3, DType::f64), full({}, 0.9, DType::f64));
  return {{"Gaussian", normal({m, n}, 0, 1, 41, 4, DType::f64)},
          {"rank 5 and a sparse part", low + sparse * 50.0},
          {"geometric to 1e-4", geometric(m, n, 1e-4, 5)},
          {"geometric to 1e-6", geometric(m, n, 1e-6, 6)},
          {"four values, n / 4 times each", four_values(m, n, 7)}};
}

struct Outcome {
  Tensor d, da, dtau;  // f64, on the CPU
};
Outcome run(const Tensor& a, const Tensor& tau, const Tensor& upstream) {
  Tensor x = a.detach(), t = tau.detach();
  x.requires_grad();
  t.requires_grad();
  const Tensor d = singular_value_threshold(x, t);
  d.backward(upstream);
  const auto exact = [](const Tensor& y) { return y.detach().to(cpu).to(DType::f64); };
  return {exact(d), exact(x.grad()), exact(t.grad())};
}

Tensor on_gpu(const Tensor& x) { return x.to(DType::f32).to(cuda_device()); }

}  // namespace

TEST_CASE("simulated GPU: Jacobi rotations leave orthogonal eigenvectors") {
  for (const int64_t n : {1, 2, 15, 17, 32, 33, 64}) {
    const Tensor a = normal({2, n, n + 3}, 0, 1, 40, uint64_t(n), DType::f64);
    const Tensor g = matmul(a, a.transpose(1, 2)).to(DType::f32), gpu = on_gpu(g);
    const Tensor v = empty(g.shape(), DType::f32, cuda_device());
    cuda::jacobi(2, n, gpu.data<float>(), v.data<float>(), 0x1p-18f);
    const Tensor vectors = v.to(cpu).to(DType::f64), transposed = vectors.transpose(1, 2);
    const std::vector<double> unit = matmul(vectors, transposed).to_vector(),
                              turned = matmul(matmul(vectors, g.to(DType::f64)), transposed).to_vector();
    double skew = 0, left = 0, top = 0;
    for (size_t i = 0; i < turned.size(); ++i) {
      const bool diagonal = int64_t(i) / n % n == int64_t(i) % n;
      skew = larger(skew, std::fabs(unit[i] - diagonal));
      (diagonal ? top : left) = larger(diagonal ? top : left, std::fabs(turned[i]));
    }
    CAPTURE(n);
    CHECK(skew < 2e-5);
    CHECK(left <= 4e-6 * top);
  }
}

TEST_CASE("simulated GPU: singular value thresholding of hard spectra") {
  const int64_t m = 80;
  for (const int64_t n : {64, 66}) {  // Jacobi rotations; the library
    for (const auto& [key, matrix] : hard_spectra(m, n)) {
      const std::string& name = key;
      const Tensor a = matrix.to(DType::f32), exact = a.to(DType::f64);
      const double top = svd(exact).s.select(0, 0).item();
      // Partly along the matrix, so that the gradient of tau is no sum that cancels.
      const Tensor upstream = normal({m, n}, 0, 1, 42, 0) + a * (20 / top);
      for (const double kappa : {3.0, 33.0, 333.0}) {
        const Tensor tau = full({}, top / kappa);
        const Outcome want = run(exact, tau.to(DType::f64), upstream.to(DType::f64));
        const Outcome got = run(on_gpu(a), on_gpu(tau), on_gpu(upstream));
        CAPTURE(n);
        CAPTURE(name);
        CAPTURE(kappa);
        CHECK(norm(got.d - want.d) < 5e-6 * top);
        CHECK(norm(got.da - want.da) < 1e-5 * norm(want.da));
        CHECK(norm(got.dtau - want.dtau) < 1e-5 * norm(want.dtau));
      }
    }
  }
}

TEST_CASE("simulated GPU: singular value thresholding by signs, of hard spectra") {
  const int64_t m = 40, n = 32;
  std::vector<Spectrum> spectra = hard_spectra(m, n);
  spectra.push_back({"rank 1", with_spectrum(m, n, {1}, 8)});
  spectra.push_back({"all values the same", with_spectrum(m, n, std::vector<double>(n, 0.7), 9)});
  for (const double spread : {0.0, 1e-5, 1e-3}) {
    std::vector<double> sigma = {1};
    for (int64_t i = 1; i < n; ++i) sigma.push_back((1 + spread * (2.0 * double(i) / double(n) - 1)) / 3);
    spectra.push_back({"all values but one close to tau", with_spectrum(m, n, sigma, 10)});
  }
  for (const auto& [key, matrix] : spectra) {
    const std::string& name = key;
    const Tensor a = matrix.to(DType::f32);
    const double top = svd(a.to(DType::f64)).s.select(0, 0).item();
    for (const double kappa : {3.0, 1e6}) {
      const Tensor tau = full({}, top / kappa);
      const Tensor want = singular_value_threshold(a.to(DType::f64), tau.to(DType::f64));
      const Tensor got = singular_value_threshold(on_gpu(a), on_gpu(tau)).to(cpu).to(DType::f64);
      CAPTURE(name);
      CAPTURE(kappa);
      CHECK(norm(got - want) < 3e-6 * top);
    }
  }
}

TEST_CASE("simulated GPU: singular value thresholding without a gradient, of all shapes") {
  // Wide, narrow, of more columns than 64, with rows that do not fit on the chip; the last by the library.
  for (const auto& size :
       {std::pair<int64_t, int64_t>{17, 17}, {30, 80}, {50, 40}, {67, 65}, {1500, 18}, {140, 130}}) {
    const int64_t m = size.first, n = size.second;
    const Tensor a = normal({1, m, n}, 0, 1, 44, uint64_t(m)), tau = full({1}, 5);
    const Tensor want = singular_value_threshold(a.to(DType::f64), tau.to(DType::f64));
    const Tensor got = singular_value_threshold(on_gpu(a), on_gpu(tau)).to(cpu).to(DType::f64);
    CAPTURE(m);
    CAPTURE(n);
    CHECK(norm(got - want) < 3e-6 * norm(want));
  }
}

TEST_CASE("simulated GPU: singular value thresholding of special matrices") {
  // The sizes select the three methods: Jacobi rotations, matrix sign iteration, the library.
  for (const auto& [rows, recorded] : {std::pair<int64_t, bool>{7, true}, {20, false}, {65, true}}) {
    const int64_t m = rows, n = m + 5;
    CAPTURE(m);
    const auto threshold = [with_gradient = recorded](const Tensor& a, const Tensor& tau) {
      Tensor x = on_gpu(a);
      if (with_gradient) x.requires_grad();
      return singular_value_threshold(x, on_gpu(tau)).detach().to(cpu);
    };
    // One threshold per matrix: 0, in the middle of the singular values, above all of them.
    const Tensor a = normal({3, m, n}, 0, 1, 43, 0), tau = from_vector(std::vector<float>{0, 3, 100}, {3});
    const Tensor want = singular_value_threshold(a, tau), got = threshold(a, tau);
    CHECK(norm(got.slice(0, 0, 1) - a.slice(0, 0, 1)) == 0);
    CHECK(norm(got - want) < 5e-6 * norm(want));
    CHECK(norm(got.slice(0, 2, 3)) == 0);
    CHECK(norm(threshold(zeros({2, n, m}), full({2}, 0.5))) == 0);
    CHECK(threshold(zeros({0, 9, 5}), zeros({0})).shape() == Shape{0, 9, 5});
    CHECK(threshold(zeros({2, 9, 0}), ones({2})).shape() == Shape{2, 9, 0});
    // Squares would overflow or vanish.
    for (const double scale : {1e-25, 1e25})
      CHECK(norm(threshold(a * scale, tau * scale) - want * scale) < 5e-6 * norm(want * scale));
    // An invalid matrix or threshold must give NaN for that matrix and not affect the other matrix.
    const Tensor second = a.slice(0, 1, 2), whole = threshold(second, full({1}, 3));
    const auto spoils = [&](const Tensor& first, float first_tau) {
      const Tensor both =
          threshold(concat({first, second}, 0), from_vector(std::vector<float>{first_tau, 3}, {2}));
      for (const double v : both.select(0, 0).to_vector()) CHECK(std::isnan(v));
      CHECK(norm(both.slice(0, 1, 2) - whole) == 0);
    };
    spoils(full({1, m, n}, INFINITY), 3);
    spoils(second, NAN);
    spoils(second, -1);
  }
  // Gradients: of zeros 0, of a threshold of 0 the upstream's, above all values 0.
  for (const auto& [scale, tau, passes] : {std::tuple{0.0, 0.5, 0.0}, {1.0, 0.0, 1.0}, {1.0, 1e3, 0.0}}) {
    const Tensor upstream = normal({2, 9, 5}, 0, 1, 43, 2);
    const Outcome got =
        run(on_gpu(normal({2, 9, 5}, 0, scale, 43, 1)), on_gpu(full({2}, tau)), on_gpu(upstream));
    CHECK(norm(got.da - upstream.to(DType::f64) * passes) == 0);
    CHECK(std::isfinite(norm(got.dtau)));
  }
}
#endif
