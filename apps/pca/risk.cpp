#include "apps/pca/risk.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/base/error.h"

namespace pursuit::pca {

ExactRisk::ExactRisk(const Setting& setting, Covariance covariance)
    : sigma_(std::move(covariance)), lambda_(setting.lambda), script_gradient_(setting.script_gradient) {
  const bool linear = setting.layer == Layer::linear;
  if (linear && setting.in_context)
    fail("pca", "the risk of the linear layer in context has no closed form here; draw prompts");
  if (!linear && !setting.in_context) return;
  const double length = double(linear ? setting.length : setting.vectors);
  if (setting.in_context) m_ = length;
  p_ = sigma_.trace();
  q_ = length + 1;
  r_ = (length + 2) * p_;
  s_ = (length + 2) * (length + 3);
}

double ExactRisk::operator()(std::span<const double> mu) const {
  const std::vector<double> once = sigma_.times(mu);
  const double a = dot(mu, once), b = dot(once, once);
  return m_ *
         (sigma_.trace() - 2 * lambda_ * (p_ * a + q_ * b) + lambda_ * lambda_ * (r_ * a * a + s_ * a * b));
}

std::vector<double> ExactRisk::gradient(std::span<const double> mu) const {
  const std::vector<double> once = sigma_.times(mu), twice = sigma_.times(once);
  const double a = dot(mu, once), b = dot(once, once), s = script_gradient_ ? 2 * s_ : s_;
  const double of_a = -2 * lambda_ * p_ + lambda_ * lambda_ * (2 * r_ * a + s * b);  // dR / da
  const double of_b = -2 * lambda_ * q_ + lambda_ * lambda_ * s * a;                 // dR / db
  std::vector<double> g(once.size());
  for (size_t i = 0; i < g.size(); ++i) g[i] = 2 * m_ * (of_a * once[i] + of_b * twice[i]);
  return g;
}

double ExactRisk::stationary_norm(int64_t i) const {
  const double sigma = sigma_.values[size_t(i)];
  return std::sqrt((p_ + q_ * sigma) / (lambda_ * sigma * (r_ + s_ * sigma)));
}

double ExactRisk::stationary_risk(int64_t i) const {
  const double sigma = sigma_.values[size_t(i)], slope = p_ + q_ * sigma;
  return m_ * (sigma_.trace() - slope * slope / (r_ + s_ * sigma));
}

double ExactRisk::curvature(int64_t i, int64_t j) const {
  const double at = sigma_.values[size_t(i)], along = sigma_.values[size_t(j)];
  if (i == j) return 8 * lambda_ * m_ * (p_ * at + q_ * at * at);
  const double square = stationary_norm(i) * stationary_norm(i), a = at * square, b = at * a;
  return m_ * (-4 * lambda_ * (p_ * along + q_ * along * along) +
               lambda_ * lambda_ * (4 * r_ * a * along + 2 * s_ * (a * along * along + b * along)));
}

double ExactRisk::curvature_at_zero(int64_t j) const {
  const double along = sigma_.values[size_t(j)];
  return -4 * lambda_ * m_ * (p_ * along + q_ * along * along);
}

double ExactRisk::slowest_curvature() const {
  double least = std::numeric_limits<double>::infinity();
  for (int64_t j = 1; j < sigma_.dim; ++j) least = std::min(least, curvature(0, j));
  return least;
}

}  // namespace pursuit::pca
