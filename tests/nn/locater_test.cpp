#include "nn/locater.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/base/error.h"
#include "engine/base/random.h"
#include "engine/ops.h"
#include "engine/solve/gradcheck.h"
#include "nn/qk_matrix.h"
#include "tests/differences.h"

using namespace pursuit;
using namespace pursuit::nn;

namespace {

using Matrix = std::vector<double>;  // [d, d], row by row

// Eigenvalues of exact mean and standard deviation; any basis will do where the tokens are isotropic.
Matrix diagonal(int64_t d, double mean, double sd, uint64_t seed) {
  Random random(seed, 1);
  std::vector<double> values(static_cast<size_t>(d));
  for (double& v : values) v = random.normal();
  const double m = std::accumulate(values.begin(), values.end(), 0.0) / double(d);
  double square = 0;
  for (double& v : values) {
    v -= m;
    square += v * v;
  }
  Matrix w(static_cast<size_t>(d * d), 0.0);
  for (int64_t i = 0; i < d; ++i)
    w[size_t(i * d + i)] = mean + sd * values[size_t(i)] / std::sqrt(square / double(d));
  return w;
}

Matrix asymmetric(int64_t d, double mean, double sd, uint64_t seed) {
  Random random(seed, 2);
  Matrix w(static_cast<size_t>(d * d));
  for (double& v : w) v = sd * random.normal();
  for (int64_t i = 0; i < d; ++i) w[size_t(i * d + i)] += mean;
  return w;
}

// Statistics of a query-key matrix of full width: W_Q = W, W_K = I.
QkStatistics statistics(const Matrix& w, int64_t d) {
  Tensor identity = zeros({d, d}, DType::f64);
  for (int64_t i = 0; i < d; ++i) identity.data<double>()[i * d + i] = 1;
  return qk_statistics(from_vector(w, {d, d}).transpose(0, 1), identity);
}

constexpr int64_t d = 128, T = 64, sequences = 4000;
const double temperature = std::sqrt(double(d));

// The walk of one sequence, [T, d].
std::vector<double> walk(uint64_t seed, uint64_t number) {
  const Tensor steps = normal({T, d}, 0, 1, seed, number);
  std::vector<double> x(steps.data<float>(), steps.data<float>() + T * d);
  for (size_t i = size_t(d); i < x.size(); ++i) x[i] += x[i - size_t(d)];
  return x;
}

// y = W x, over the entries that are not 0.
struct Sparse {
  std::vector<std::pair<int32_t, double>> entries;
  std::vector<size_t> rows;
  explicit Sparse(const Matrix& w) {
    for (int64_t i = 0; i < d; ++i) {
      for (int64_t j = 0; j < d; ++j)
        if (w[size_t(i * d + j)] != 0) entries.push_back({int32_t(j), w[size_t(i * d + j)]});
      rows.push_back(entries.size());
    }
  }
  std::vector<double> times(const double* x) const {
    std::vector<double> y(size_t(d), 0.0);
    size_t e = 0;
    for (int64_t i = 0; i < d; ++i)
      for (; e < rows[size_t(i)]; ++e) y[size_t(i)] += entries[e].second * x[entries[e].first];
    return y;
  }
};

struct Moments {
  std::vector<double> mean, sd, rho;  // of the centred logits, by token
};

// Simulates each of the matrices on the same random walks.
std::vector<Moments> simulate(const std::vector<Matrix>& matrices) {
  struct Sums {
    Sparse product;
    std::vector<double> sum, square, inside;
  };
  std::vector<Sums> all;
  for (const Matrix& w : matrices)
    all.push_back({Sparse(w), std::vector<double>(T), std::vector<double>(T), std::vector<double>(T)});
  for (uint64_t s = 0; s < sequences; ++s) {
    const std::vector<double> x = walk(3, s);
    for (Sums& m : all) {
      const std::vector<double> y = m.product.times(&x[size_t((T - 1) * d)]);
      std::vector<double> o(T);
      double mean = 0;
      for (int64_t i = 0; i < T; ++i)
        mean += o[size_t(i)] = std::inner_product(y.begin(), y.end(), &x[size_t(i * d)], 0.0);
      mean /= double(T);
      for (size_t i = 0; i < size_t(T); ++i) {
        const double delta = o[i] - mean;
        m.sum[i] += delta;
        m.square[i] += delta * delta;
        m.inside[i] += delta > -temperature && delta < temperature * double(T - 1);
      }
    }
  }
  std::vector<Moments> out;
  const double n = double(sequences);
  for (const Sums& m : all) {
    out.emplace_back();
    for (size_t i = 0; i < size_t(T); ++i) {
      out.back().mean.push_back(m.sum[i] / n);
      out.back().sd.push_back(std::sqrt(m.square[i] / n - m.sum[i] / n * (m.sum[i] / n)));
      out.back().rho.push_back(m.inside[i] / n);
    }
  }
  return out;
}

double spread(const std::vector<double>& values) {
  return *std::max_element(values.begin(), values.end()) - *std::min_element(values.begin(), values.end());
}

}  // namespace

TEST_CASE("qk matrix: traces, norm and eigenvalues are those of W_Q^T W_K") {
  const Tensor q = normal({3, 7}, 0, 1, 1, 0, DType::f64), k = normal({3, 7}, 0, 1, 1, 1, DType::f64);
  const Tensor w = matmul(q.transpose(0, 1), k);
  const QkStatistics s = qk_statistics(q, k);
  double trace = 0;
  for (int64_t i = 0; i < 7; ++i) trace += w.select(0, i).select(0, i).item();
  CHECK(s.trace == doctest::Approx(trace));
  CHECK(s.frobenius2 == doctest::Approx(sum(square(w)).item()));
  CHECK(s.trace_of_square == doctest::Approx(sum(w * w.transpose(0, 1)).item()));
  std::complex<double> first = 0, second = 0;
  for (const std::complex<double>& value : qk_eigenvalues(q, k)) first += value, second += value * value;
  CHECK(first.real() == doctest::Approx(s.trace));
  CHECK(second.real() == doctest::Approx(s.trace_of_square));
  CHECK(std::abs(first.imag()) < 1e-12);
  CHECK_THROWS_AS(qk_trace(q, k.slice(1, 0, 6)), Error);
  // A multiple of the identity is as concentrated as can be.
  CHECK(statistics(diagonal(9, 0.3, 0, 0), 9).concentration() == doctest::Approx(3));
}

TEST_CASE("locater: gradients are the analytic ones and those of finite differences") {
  const Tensor q = normal({2, 3, 5}, 0, 1, 2, 0, DType::f64), k = normal({2, 3, 5}, 0, 1, 2, 1, DType::f64);
  for (const auto form : {LocaterForm::anchor, LocaterForm::var, LocaterForm::fro, LocaterForm::tr2}) {
    const LocaterOptions options{form, 0.7, 3, true};
    const GradientReport report =
        check_gradient([&](const std::vector<Tensor>& in) { return locater(in[0], in[1], options); }, {q, k},
                       {.rtol = 1e-6});
    INFO(report.message);
    CHECK(report.ok);

    // dR/dW = G: W_K G^T and W_Q G.
    Tensor q1 = q.detach(), k1 = k.detach();
    q1.requires_grad(), k1.requires_grad();
    locater(q1, k1, options).backward();
    for (int64_t h = 0; h < 2; ++h) {
      const Tensor wq = q.select(0, h), wk = k.select(0, h), w = matmul(wq.transpose(0, 1), wk);
      const double trace = qk_trace(wq, wk).item();
      Tensor identity = zeros({5, 5}, DType::f64);
      for (int64_t i = 0; i < 5; ++i) identity.data<double>()[i * 6] = 1;
      const Tensor g = form == LocaterForm::anchor ? 2 * w + identity * (2 * 0.7 * (trace - 3))
                       : form == LocaterForm::fro  ? 2 * w
                       : form == LocaterForm::var  ? 2 * w - identity * (2 * trace / 5)
                                                   : 2 * w.transpose(0, 1) - identity * (2 * trace / 5);
      const Tensor off_q = sum(square(q1.grad().select(0, h) - matmul(wk, g.transpose(0, 1))));
      const Tensor off_k = sum(square(k1.grad().select(0, h) - matmul(wq, g)));
      CHECK(off_q.item() < 1e-20);
      CHECK(off_k.item() < 1e-20);
    }
  }
}

TEST_CASE("locater: descent on the regulariser alone") {
  const int64_t width = 32;
  const auto descend = [&](LocaterForm form, int steps, double lr) {
    Tensor q = normal({width, width}, 0, 0.15, 4, 0), k = normal({width, width}, 0, 0.15, 4, 1);
    std::vector<QkStatistics> at = {qk_statistics(q, k)};
    for (int step = 0; step < steps; ++step) {
      q = q.detach(), k = k.detach();
      q.requires_grad(), k.requires_grad();
      locater(q, k, {form, 1, 5, true}).backward();
      q = q.detach() - lr * q.grad(), k = k.detach() - lr * k.grad();
    }
    at.push_back(qk_statistics(q, k));
    return at;
  };
  const auto deviation = [&](const QkStatistics& s) {
    return s.frobenius2 - s.trace * s.trace / double(width);
  };
  const auto anchor = descend(LocaterForm::anchor, 1500, 0.02);
  CHECK(deviation(anchor[1]) < 0.1 * deviation(anchor[0]));
  CHECK(anchor[1].trace == doctest::Approx(5 / (1 + 1.0 / width)).epsilon(0.01));
  const auto var = descend(LocaterForm::var, 500, 0.02);
  CHECK(deviation(var[1]) < 0.1 * deviation(var[0]));
  // Without a lower bound the norm grows instead, so this form is refused unless requested.
  const auto tr2 = descend(LocaterForm::tr2, 16, 0.01);
  CHECK(tr2[1].frobenius2 > 2 * tr2[0].frobenius2);
  CHECK_THROWS_AS(locater(ones({2, 2}), ones({2, 2}), {LocaterForm::tr2}), Error);
}

TEST_CASE("signal propagation: the tabled values") {
  // Eigenvalues' mean and standard deviation, rho at tokens 1, 16, 32, 33, 36, 48, 64.
  const struct {
    double mean, sd, rho[7];
  } table[] = {{0, 0.005, {1, 1, 1, 1, 1, 1, 1}},
               {0, 0.05, {.66, .75, .86, .86, .85, .76, .66}},
               {0, 1, {.41, .50, .52, .52, .52, .50, .41}},
               {0.005, 0, {0, .67, 1, 1, 1, 1, 1}},
               {0.005, 0.2, {.47, .50, .60, .61, .62, .63, .61}},
               {0.02, 0.02, {0, 0, .96, .98, 1, 1, 1}},
               {0.04, 0, {0, 0, .85, .95, 1, 1, 1}},
               {0.04, 0.2, {.09, .14, .58, .63, .75, .91, .94}},
               {0.04, 1, {.34, .41, .52, .53, .55, .58, .47}},
               {1, 0, {0, 0, .40, .64, .87, 0, 0}}};
  const int64_t tokens[] = {1, 16, 32, 33, 36, 48, 64};
  for (const auto& row : table) {
    const QkStatistics w{d, double(d) * row.mean, double(d) * (row.sd * row.sd + row.mean * row.mean),
                         double(d) * (row.sd * row.sd + row.mean * row.mean)};
    const std::vector<double> rho = signal_propagation(w, temperature, T);
    for (int i = 0; i < 7; ++i) {
      INFO("mean ", row.mean, " sd ", row.sd, " token ", tokens[i]);
      CHECK(std::abs(rho[size_t(tokens[i] - 1)] - row.rho[i]) <= 0.04);
    }
  }
  // Localisation at one trace: the eigenvalues' spread decides.
  const auto localisation = [](double sd) {
    const double square = double(d) * (sd * sd + 0.04 * 0.04);
    return spread(signal_propagation({d, 5.12, square, square}, temperature, T));
  };
  CHECK(localisation(0) >= 0.98);
  CHECK(localisation(0.05) >= 0.98);
  CHECK(std::abs(localisation(0.2) - 0.85) < 0.05);
  CHECK(std::abs(localisation(1) - 0.25) < 0.06);
}

TEST_CASE("signal propagation: moments and probabilities are those of random walks") {
  const std::vector<Matrix> matrices = {diagonal(d, 0.04, 0.2, 1), diagonal(d, 0, 0.05, 2),
                                        diagonal(d, 1, 0, 3), asymmetric(d, 0.04, 0.02, 4)};
  const std::vector<Moments> moments = simulate(matrices);
  for (size_t j = 0; j < matrices.size(); ++j) {
    const QkStatistics s = statistics(matrices[j], d);
    const Moments& m = moments[j];
    const std::vector<double> rho = signal_propagation(s, temperature, T);
    for (int64_t i = 1; i <= T; ++i) {
      const double from_middle = double(i) - double(T + 1) / 2;
      const double v = double(i) - double(i) * double(2 * T - i + 1) / double(T) +
                       double((T + 1) * (2 * T + 1)) / double(6 * T);
      const double sd =
          std::sqrt(double(T) * v * s.frobenius2 + from_middle * from_middle * s.trace_of_square);
      CHECK(m.sd[size_t(i - 1)] == doctest::Approx(sd).epsilon(0.05));
      // Four standard errors of the simulated mean.
      CHECK(std::abs(m.mean[size_t(i - 1)] - from_middle * s.trace) < 4 * sd / std::sqrt(double(sequences)));
    }
    CHECK(largest_difference(m.rho, rho) <= 0.04);
  }
}

TEST_CASE("signal propagation: simulated on other walks of the same number") {
  const std::vector<Matrix> matrices = {diagonal(d, 0.04, 0.2, 1), diagonal(d, 0, 0.05, 2),
                                        diagonal(d, 1, 0, 3), asymmetric(d, 0.04, 0.02, 4)};
  const std::vector<Moments> moments = simulate(matrices);
  // All matrices as heads, W_Q = W^T and W_K = I, as W = W_Q^T W_K.
  std::vector<double> queries, keys;
  for (const Matrix& w : matrices)
    for (int64_t i = 0; i < d * d; ++i) {
      queries.push_back(w[size_t(i % d * d + i / d)]);
      keys.push_back(i / d == i % d);
    }
  const Shape shape = {int64_t(matrices.size()), d, d};
  const Tensor rho = simulated_propagation(from_vector(queries, shape), from_vector(keys, shape), temperature,
                                           T, sequences, 7);
  REQUIRE(rho.shape() == Shape{shape[0], T});
  const std::vector<double> shares = rho.to_vector();
  for (size_t j = 0; j < matrices.size(); ++j)
    for (size_t i = 0; i < size_t(T); ++i) {
      // Two estimates from so many walks each: five standard errors of their difference, and one walk for
      // shares of 0 and 1.
      const double p = moments[j].rho[i];
      const double error = std::sqrt(2 * p * (1 - p) / double(sequences));
      CHECK(std::abs(shares[j * size_t(T) + i] - p) <= 5 * error + 2.0 / double(sequences));
    }
  CHECK_THROWS_AS(simulated_propagation(ones({2, 2}), ones({2, 2}), 1, 4, 10, 0), Error);
  CHECK_THROWS_AS(simulated_propagation(ones({1, 2, 2}), ones({1, 2, 2}), 0, 4, 10, 0), Error);
}

TEST_CASE("attention of random walks: rank collapse and entropy collapse") {
  struct Outcome {
    double entropy = 0, cosine = 0;  // of the last row over log T; mean pairwise of the outputs
  };
  const auto outcome = [](double mean, double sd) {
    const Sparse product(diagonal(d, mean, sd, 5));
    Outcome all;
    const int count = 60;
    for (uint64_t s = 0; s < count; ++s) {
      const std::vector<double> x = walk(9, s);
      std::vector<double> unit(size_t(T * d), 0.0), total(size_t(d), 0.0);
      for (int64_t q = 0; q < T; ++q) {
        const std::vector<double> y = product.times(&x[size_t(q * d)]);
        std::vector<double> a(T);
        for (int64_t i = 0; i < T; ++i)
          a[size_t(i)] = std::inner_product(y.begin(), y.end(), &x[size_t(i * d)], 0.0) / temperature;
        const double top = *std::max_element(a.begin(), a.end());
        double z = 0;
        for (double& v : a) z += v = std::exp(v - top);
        double entropy = 0;
        for (int64_t i = 0; i < T; ++i) {
          const double p = a[size_t(i)] / z;
          entropy -= p > 0 ? p * std::log(p) : 0;
          for (int64_t j = 0; j < d; ++j) unit[size_t(q * d + j)] += p * x[size_t(i * d + j)];
        }
        if (q == T - 1) all.entropy += entropy / std::log(double(T)) / count;
        double* u = &unit[size_t(q * d)];
        const double length = std::sqrt(std::inner_product(u, u + d, u, 0.0));
        for (int64_t j = 0; j < d; ++j) total[size_t(j)] += u[j] /= length;
      }
      // The squared norm of a sum of unit vectors has every pair twice and each vector with itself.
      const double square = std::inner_product(total.begin(), total.end(), total.begin(), 0.0);
      all.cosine += (square - double(T)) / double(T * (T - 1)) / count;
    }
    return all;
  };
  CHECK(outcome(0, 0.005).cosine >= 0.99);
  CHECK(outcome(0, 1).entropy <= 0.13);
  CHECK(outcome(0.04, 1).entropy <= 0.13);
  const Outcome between = outcome(0.02, 0.02);
  CHECK(between.entropy >= 0.5);
  CHECK(between.entropy <= 0.7);
  CHECK(between.cosine <= 0.98);
}
