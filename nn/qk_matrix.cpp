#include "nn/qk_matrix.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/base/error.h"
#include "engine/base/streams.h"
#include "engine/ops.h"
#include "engine/solve/linalg.h"

namespace pursuit::nn {

namespace {

Tensor product(const Tensor& a, const Tensor& b) {
  return matmul(a, b.transpose(-2, -1));
}  // [..., d_h, d_h]

Tensor inner(const Tensor& a, const Tensor& b) { return sum(a * b, {-2, -1}); }

void check_shapes(const Tensor& query, const Tensor& key) {
  if (query.ndim() < 2 || query.shape() != key.shape())
    fail("qk_matrix",
         "got W_Q " + query.str() + " and W_K " + key.str() + ", need two of one shape [..., d_h, d]");
}

void check_propagation(double temperature, int64_t tokens) {
  if (tokens < 1 || !(temperature > 0))
    fail("signal_propagation", "got " + std::to_string(tokens) + " tokens and temperature " +
                                   std::to_string(temperature) + ", need at least 1 and more than 0");
}

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

}  // namespace

Tensor qk_trace(const Tensor& query, const Tensor& key) {
  check_shapes(query, key);
  return inner(query, key);
}

Tensor qk_frobenius2(const Tensor& query, const Tensor& key) {
  check_shapes(query, key);
  return inner(product(query, query), product(key, key));
}

Tensor qk_trace_of_square(const Tensor& query, const Tensor& key) {
  check_shapes(query, key);
  const Tensor m = product(key, query);
  return inner(m, m.transpose(-2, -1));
}

double QkStatistics::concentration() const { return frobenius2 == 0 ? 0 : trace / std::sqrt(frobenius2); }

double QkStatistics::concentration_of_square() const {
  return trace_of_square > 0 ? trace / std::sqrt(trace_of_square) : std::numeric_limits<double>::quiet_NaN();
}

QkStatistics qk_statistics(const Tensor& query, const Tensor& key) {
  const Tensor q = query.detach().to(cpu).to(DType::f64), k = key.detach().to(cpu).to(DType::f64);
  return {q.size(-1), qk_trace(q, k).item(), qk_frobenius2(q, k).item(), qk_trace_of_square(q, k).item()};
}

std::vector<std::complex<double>> qk_eigenvalues(const Tensor& query, const Tensor& key) {
  check_shapes(query, key);
  const Tensor q = query.detach().to(cpu).to(DType::f64), k = key.detach().to(cpu).to(DType::f64);
  std::vector<std::complex<double>> values = eigenvalues(product(k, q));
  std::sort(values.begin(), values.end(),
            [](const auto& a, const auto& b) { return std::abs(a) > std::abs(b); });
  return values;
}

std::vector<double> signal_propagation(const QkStatistics& w, double temperature, int64_t tokens) {
  check_propagation(temperature, tokens);
  const double T = double(tokens);
  std::vector<double> rho;
  for (double i = 1; i <= T; ++i) {
    const double from_middle = i - (T + 1) / 2;
    const double mean = from_middle * w.trace;
    const double v = i - i * (2 * T - i + 1) / T + (T + 1) * (2 * T + 1) / (6 * T);
    const double variance = T * v * w.frobenius2 + from_middle * from_middle * w.trace_of_square;
    // The variance of W = 0 may be negative by rounding, and tr W^2 may be negative.
    const double sd = std::sqrt(std::max(variance, 1e-300));
    rho.push_back(normal_cdf((temperature * (T - 1) - mean) / sd) - normal_cdf((-temperature - mean) / sd));
  }
  return rho;
}

Tensor simulated_propagation(const Tensor& query, const Tensor& key, double temperature, int64_t tokens,
                             int64_t walks, uint64_t seed) {
  check_propagation(temperature, tokens);
  check_shapes(query, key);
  if (query.ndim() != 3 || walks < 1)
    fail("simulated_propagation", "got W_Q " + query.str() + " and " + std::to_string(walks) +
                                      " walks, need [heads, d_h, d] and at least 1");
  const Tensor q = query.detach().to(DType::f32), k = key.detach().to(DType::f32);
  const int64_t heads = q.size(0), d_h = q.size(1), d = q.size(2);
  const Tensor all_keys = k.reshape({heads * d_h, d}).transpose(0, 1);
  // So many walks together take 4 MiB.
  const int64_t together = std::max<int64_t>(1, (int64_t(1) << 20) / (tokens * d));
  // -1 < y < T - 1 as one distance.
  const double middle = temperature * double(tokens - 2) / 2, reach = temperature * double(tokens) / 2;
  Tensor inside = zeros({tokens, heads}, DType::f32, q.device());
  for (int64_t first = 0; first < walks; first += together) {
    const int64_t n = std::min(together, walks - first);
    const Tensor x = cumsum(
        normal({n, tokens, d}, 0, 1, seed, streams::walks.at(uint64_t(first)), DType::f32, q.device()), 1);
    const Tensor k_last = matmul(x.select(1, tokens - 1), all_keys).reshape({n, heads, d_h});
    const Tensor w_last = matmul(k_last.transpose(0, 1), q);                 // W x_T, [heads, n, d]
    const Tensor omega = matmul(x, w_last.transpose(0, 1).transpose(1, 2));  // [n, T, heads]
    const Tensor centred = omega - mean(omega, {1}, /*keep=*/true);
    inside += sum((abs(centred - middle) < reach).to(DType::f32), {0});
  }
  return (inside / double(walks)).transpose(0, 1).contiguous().to(cpu);
}

}  // namespace pursuit::nn
