#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/cpu/rows.h"
#include "tests/engine/cpu_rows_test.h"

// The RPC-Attention steps inside a plain attention, against the literal algorithm in double.

namespace pursuit {
namespace {

using namespace cpu_rows_test;

struct RpcCase {
  int64_t n, dim, heads;
  int iterations;
  double lambda;
  bool quotient, shrink, dual_plus;
};

using Values = std::vector<double>;  // [n, dim]

// a [n, dim] -> softmax(a a^T / sqrt(dim)), [n, n]
Values symmetric_softmax(const Values& a, int64_t n, int64_t dim) {
  Values p(n * n);
  for (int64_t i = 0; i < n; ++i) {
    double sum = 0.0;
    for (int64_t j = 0; j < n; ++j) {
      double dot = 0.0;
      for (int64_t d = 0; d < dim; ++d) dot += a[i * dim + d] * a[j * dim + d];
      sum += p[i * n + j] = std::exp(dot / std::sqrt(static_cast<double>(dim)));
    }
    for (int64_t j = 0; j < n; ++j) p[i * n + j] /= sum;
  }
  return p;
}

Values product(const Values& p, const Values& v, int64_t n, int64_t dim) {
  Values out(n * dim);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t d = 0; d < dim; ++d) out[i * dim + d] += p[i * n + j] * v[j * dim + d];
  return out;
}

double threshold_of(const RpcCase& c, double l1) {
  const double width = static_cast<double>(c.quotient ? c.dim : c.dim * c.heads);
  const double mu = static_cast<double>(c.n) * width / (4.0 * l1);
  return c.quotient ? c.lambda / mu : c.lambda * mu;
}

// Literal form with S and Y / mu.
Values rpc_reference(const RpcCase& c, const Values& k, const Values& v) {
  double l1 = 0.0;
  for (double x : k) l1 += std::abs(x);
  const double tau = threshold_of(c, l1);
  Values l(k.size()), u(k.size()), s(k.size()), z(k.size());
  for (int t = 0; t < c.iterations; ++t) {
    for (size_t e = 0; e < k.size(); ++e) {
      const double x = k[e] - l[e] + u[e];
      s[e] = c.shrink ? std::copysign(std::max(std::abs(x) - tau, 0.0), x) : x;
      z[e] = k[e] - s[e] + (c.dual_plus ? u[e] : -u[e]);
    }
    l = product(symmetric_softmax(z, c.n, c.dim), v, c.n, c.dim);
    for (size_t e = 0; e < k.size(); ++e) u[e] += k[e] - l[e] - s[e];
  }
  return l;
}

struct RpcResult {
  Values out, dk;
};

Floats to_floats(const Values& x, int64_t n, int64_t dim, bool dense) {
  return Floats(n, dim, dense).fill([&, at = size_t{0}]() mutable { return x[at++]; });
}
Values to_values(Floats& x) {
  Values out;
  for (int64_t i = 0; i < x.rows; ++i)
    for (int64_t j = 0; j < x.cols; ++j) out.push_back(x(i, j));
  return out;
}

// Output, and gradient of sum(w * output) with respect to k, by the kernels.
RpcResult rpc_by_kernels(const RowKernels<float>& kernels, const RpcCase& c, const Values& kd,
                         const Values& v, const Values& w) {
  const int64_t n = c.n, dim = c.dim;
  Floats k = to_floats(kd, n, dim, false), u(n, dim, true);
  const double l1 = kernels.abs_sum_rows(k.data(), n, dim, k.ld);
  const double tau = threshold_of(c, l1);
  const RpcStep<float> step{static_cast<float>(tau), c.shrink, c.dual_plus};
  std::vector<Floats> z(c.iterations, Floats(n, dim, true));
  std::vector<Matrix<uint8_t>> mask(c.iterations, Matrix<uint8_t>(n, dim, true));
  Values l;
  for (int t = 0; t < c.iterations; ++t) {
    if (t == 0) {
      kernels.rpc_first_rows(k.data(), k.ld, u.data(), z[0].data(), mask[0].data(), n, dim, step);
    } else {
      Floats lf = to_floats(l, n, dim, true), z_alone = z[t - 1], u_alone = u;
      kernels.rpc_next_rows(k.data(), k.ld, lf.data(), u.data(), z[t - 1].data(), z[t].data(), mask[t].data(),
                            n, dim, step);
      kernels.rpc_next_rows(k.data(), k.ld, lf.data(), u_alone.data(), z_alone.data(), z_alone.data(),
                            nullptr, n, dim, step);
      check_matrix(
          z_alone, [&](int64_t i, int64_t j) { return z[t](i, j); }, 1e-6, 1e-6);
      check_matrix(
          u_alone, [&](int64_t i, int64_t j) { return u(i, j); }, 1e-6, 1e-6);
    }
    CHECK(z[t].intact());
    CHECK(mask[t].intact());
    CHECK(u.intact());
    l = product(symmetric_softmax(to_values(z[t]), n, dim), v, n, dim);
  }

  Floats dk(n, dim), gu(n, dim, true);
  dk.fill([] { return 0.0; });
  gu.fill([] { return 0.0; });
  Values go = w;
  double dtau = 0.0;
  const double sigma = 1.0 / std::sqrt(static_cast<double>(dim));
  for (int t = c.iterations - 1; t >= 0; --t) {
    const Values zt = to_values(z[t]), p = symmetric_softmax(zt, n, dim);
    Values ds(n * n), gz(n * dim);
    for (int64_t i = 0; i < n; ++i) {
      double dot = 0.0;
      for (int64_t j = 0; j < n; ++j) {
        for (int64_t d = 0; d < dim; ++d) ds[i * n + j] += go[i * dim + d] * v[j * dim + d];
        dot += p[i * n + j] * ds[i * n + j];
      }
      for (int64_t j = 0; j < n; ++j) ds[i * n + j] = sigma * p[i * n + j] * (ds[i * n + j] - dot);
    }
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j)
        for (int64_t d = 0; d < dim; ++d)
          gz[i * dim + d] += (ds[i * n + j] + ds[j * n + i]) * zt[j * dim + d];
    Floats gzf = to_floats(gz, n, dim, true);
    dtau += kernels.rpc_grad_rows(gzf.data(), mask[t].data(), gu.data(), t > 0 ? gzf.data() : nullptr,
                                  dk.data(), dk.ld, n, dim, step);
    CHECK(gzf.intact());
    CHECK(gu.intact());
    go = to_values(gzf);
  }
  const double slope = (c.quotient ? tau : -tau) / l1;  // dtau / d||K||_1
  kernels.rpc_tau_grad_rows(k.data(), k.ld, static_cast<float>(dtau * slope), dk.data(), dk.ld, n, dim);
  CHECK(dk.intact());
  CHECK(k.intact());
  return {l, to_values(dk)};
}

TEST_CASE("cpu rows: RPC-Attention, worked example with known values") {
  const Values k = {1, -2, 0.5, 0.25, -1.5, 3}, v = {0.2, -0.4, 1, 0.5, -0.6, 0.8},
               w = {1, -1, 0.5, 2, -0.3, 0.7};
  for (const RowKernels<float>* kernels : all_kernels()) {
    CAPTURE(std::string(kernels->isa));
    auto expect = [&](const Values& got, const Values& want) {
      for (size_t e = 0; e < want.size(); ++e) CHECK(close(got[e], want[e], 2e-5, 2e-6));
    };
    const RpcResult six = rpc_by_kernels(*kernels, {3, 2, 3, 6, 4.0, false, true, false}, k, v, w);
    expect(six.out, {0.208719, -0.383139, 0.243564, 0.189809, 0.115131, 0.511529});
    const RpcResult two = rpc_by_kernels(*kernels, {3, 2, 3, 2, 1.0, false, true, false}, k, v, w);
    expect(two.out, {0.085092, 0.264762, 0.151897, 0.294975, 0.077170, 0.282532});
    expect(two.dk, {0.004656, -0.004656, -0.046450, 0.086740, -0.004656, 0.004656});
    const RpcResult four = rpc_by_kernels(*kernels, {3, 2, 3, 4, 4.0, false, true, false}, k, v, w);
    expect(four.dk, {-0.219798, 0.190859, -1.101011, -0.194661, 0.166052, -0.197950});
    const RpcResult paper = rpc_by_kernels(*kernels, {3, 2, 3, 2, 0.25, true, true, false}, k, v, w);
    expect(paper.out, {0.149856, 0.308260, 0.195203, 0.294120, 0.057890, 0.347467});
    expect(paper.dk, {-0.128684, 0.008514, -0.016249, 0.045306, 0.008514, -0.008514});
  }
}

TEST_CASE("cpu rows: RPC-Attention, every switch against the literal algorithm and central differences") {
  for (const RowKernels<float>* kernels : all_kernels()) {
    for (int64_t dim : {1, 7, 21}) {
      for (int variant = 0; variant < 8; ++variant) {
        const bool quotient = variant & 1, shrink = !(variant & 2), dual_plus = variant & 4;
        const RpcCase c{5, dim, 2, 3, quotient ? 0.2 : 0.5, quotient, shrink, dual_plus};
        CAPTURE(std::string(kernels->isa));
        CAPTURE(dim);
        CAPTURE(variant);
        Values k(5 * dim), v(5 * dim), w(5 * dim);
        for (auto* x : {&k, &v, &w})
          std::generate(x->begin(), x->end(), normal(x == &k ? 31 : x == &v ? 32 : 33));
        const RpcResult got = rpc_by_kernels(*kernels, c, k, v, w);
        const Values want = rpc_reference(c, k, v);
        for (size_t e = 0; e < k.size(); ++e) CHECK(close(got.out[e], want[e], 1e-5, 3e-6));
        auto loss = [&](const Values& at) {
          const Values out = rpc_reference(c, at, v);
          double sum = 0.0;
          for (size_t e = 0; e < out.size(); ++e) sum += w[e] * out[e];
          return sum;
        };
        for (size_t e = 0; e < k.size(); ++e) {
          const double h = 1e-6;
          Values up = k, down = k;
          up[e] += h;
          down[e] -= h;
          CHECK(close(got.dk[e], (loss(up) - loss(down)) / (2 * h), 1e-4, 3e-5));
        }
      }
    }
  }
}

TEST_CASE("cpu rows: RPC clipping at long odd rows") {
  for_each_size([](const RowKernels<float>& kernels, int64_t cols) {
    Floats k = Floats(2, cols).fill(normal(41)), z(2, cols, true), u(2, cols, true);
    if (cols > 6) {
      k(0, 0) = 0.5f;
      k(0, 1) = -0.5f;
      k(0, 2) = kNan;
    }
    Matrix<uint8_t> mask(2, cols, true);
    kernels.rpc_first_rows(k.data(), k.ld, u.data(), z.data(), mask.data(), 2, cols, {0.5f, true, false});
    auto clipped = [&](int64_t i, int64_t j) {
      return std::isnan(k(i, j)) ? kNan : std::clamp(k(i, j), -0.5f, 0.5f);
    };
    check_matrix(z, clipped, 0.0, 0.0);
    check_matrix(
        u, [](int64_t, int64_t) { return 0.0; }, 0.0, 0.0);
    for (int64_t i = 0; i < 2; ++i)
      for (int64_t j = 0; j < cols; ++j)
        CHECK(mask(i, j) == (k(i, j) >= 0.5f ? 1 : k(i, j) <= -0.5f ? 2 : 0));
    CHECK(mask.intact());
    kernels.rpc_first_rows(k.data(), k.ld, nullptr, z.data(), nullptr, 2, cols, {0.5f, true, false});
    check_matrix(z, clipped, 0.0, 0.0);

    Floats dk = Floats(2, cols).fill(normal(42)), before = dk;
    kernels.rpc_tau_grad_rows(k.data(), k.ld, 0.75f, dk.data(), dk.ld, 2, cols);
    check_matrix(
        dk, [&](int64_t i, int64_t j) { return before(i, j) + 0.75 * ((k(i, j) > 0) - (k(i, j) < 0)); }, 1e-6,
        1e-7);
  });
}

}  // namespace
}  // namespace pursuit
