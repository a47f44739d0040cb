#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace pursuit::pca {

// A symmetric positive definite matrix with its spectrum, in double.
struct Covariance {
  int64_t dim = 0;
  std::vector<double> matrix;   // [d, d]
  std::vector<double> values;   // [d], descending
  std::vector<double> vectors;  // [d, d], row i is the unit eigenvector of values[i]

  // Throws Error unless the matrix is symmetric and positive definite.
  Covariance(std::vector<double> square, int64_t dim);
  double trace() const;
  std::span<const double> vector(int64_t i) const;
  std::vector<double> times(std::span<const double> x) const;
};

// A A^T + 0.1 I of A [d, d], and of a standard normal A.
Covariance covariance_of_factor(const std::vector<double>& a, int64_t dim);
Covariance random_covariance(int64_t dim, uint64_t seed);
// I + theta v v^T with v uniform on the sphere.
Covariance spiked_covariance(int64_t dim, double theta, uint64_t seed);

// The lower triangular L [d, d] with L L^T = a, in place. Elements above the diagonal become 0. A pivot that
// is not positive (a Wishart matrix of d vectors can be singular up to rounding) is taken as 1e-12 of the
// trace.
void cholesky(std::span<double> a, int64_t dim);

double dot(std::span<const double> x, std::span<const double> y);
double norm(std::span<const double> x);
// |<x / |x|, y>| of a unit vector y, the measure of all experiments.
double cosine(std::span<const double> x, std::span<const double> y);

}  // namespace pursuit::pca
