#include "apps/pca/covariance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "apps/pca/draws.h"
#include "engine/base/error.h"
#include "engine/base/random.h"
#include "engine/solve/linalg.h"

namespace pursuit::pca {

Covariance::Covariance(std::vector<double> square, int64_t dim) : dim(dim), matrix(std::move(square)) {
  const auto d = size_t(dim);
  if (matrix.size() != d * d)
    fail("pca", fmt::format("a covariance has {} values, need {} x {}", matrix.size(), dim, dim));
  for (size_t i = 0; i < d; ++i)
    for (size_t j = 0; j < i; ++j)
      if (matrix[i * d + j] != matrix[j * d + i]) fail("pca", "a covariance is not symmetric");
  std::vector<double> ascending = matrix;
  values.resize(d);
  symmetric_eigen(ascending.data(), dim, dim, values.data());
  if (!(values[0] > 0))
    fail("pca", fmt::format("the least eigenvalue of a covariance is {}, need above 0", values[0]));
  std::reverse(values.begin(), values.end());
  for (size_t i = d; i-- > 0;)
    vectors.insert(vectors.end(), ascending.begin() + std::ptrdiff_t(i * d),
                   ascending.begin() + std::ptrdiff_t(i * d + d));
}

double Covariance::trace() const { return std::accumulate(values.begin(), values.end(), 0.0); }

std::span<const double> Covariance::vector(int64_t i) const {
  return {vectors.data() + i * dim, size_t(dim)};
}

std::vector<double> Covariance::times(std::span<const double> x) const {
  std::vector<double> y(x.size());
  for (size_t i = 0; i < y.size(); ++i) y[i] = dot({matrix.data() + i * x.size(), x.size()}, x);
  return y;
}

Covariance covariance_of_factor(const std::vector<double>& a, int64_t dim) {
  const auto d = size_t(dim);
  std::vector<double> matrix(d * d);
  for (size_t i = 0; i < d; ++i)
    for (size_t j = 0; j <= i; ++j)
      matrix[i * d + j] = matrix[j * d + i] =
          dot({a.data() + i * d, d}, {a.data() + j * d, d}) + (i == j ? 0.1 : 0);
  return Covariance(matrix, dim);
}

Covariance random_covariance(int64_t dim, uint64_t seed) {
  Random random(seed, stream_of(Draw::covariance, 0, 0, dim));
  std::vector<double> a(size_t(dim * dim));
  for (double& v : a) v = random.normal();
  return covariance_of_factor(a, dim);
}

Covariance spiked_covariance(int64_t dim, double theta, uint64_t seed) {
  const auto d = size_t(dim);
  Random random(seed, stream_of(Draw::covariance, 0, 0, dim));
  std::vector<double> v(d), matrix(d * d);
  for (double& x : v) x = random.normal();
  const double length = norm(v);
  for (size_t i = 0; i < d; ++i)
    for (size_t j = 0; j <= i; ++j)
      matrix[i * d + j] = matrix[j * d + i] = theta * (v[i] / length) * (v[j] / length) + (i == j);
  return Covariance(matrix, dim);
}

void cholesky(std::span<double> a, int64_t dim) {
  const auto d = size_t(dim);
  double trace = 0;
  for (size_t i = 0; i < d; ++i) trace += a[i * d + i];
  for (size_t j = 0; j < d; ++j) {
    for (size_t i = 0; i < j; ++i) a[i * d + j] = 0;
    for (size_t i = j; i < d; ++i)
      for (size_t k = 0; k < j; ++k) a[i * d + j] -= a[i * d + k] * a[j * d + k];
    const double pivot = std::sqrt(std::max(a[j * d + j], 1e-12 * trace));
    for (size_t i = j; i < d; ++i) a[i * d + j] /= pivot;
    a[j * d + j] = pivot;
  }
}

double dot(std::span<const double> x, std::span<const double> y) {
  return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
}
double norm(std::span<const double> x) { return std::sqrt(dot(x, x)); }
double cosine(std::span<const double> x, std::span<const double> y) { return std::fabs(dot(x, y)) / norm(x); }

}  // namespace pursuit::pca
