#pragma once
#include <span>
#include <vector>

#include "apps/pca/covariance.h"
#include "apps/pca/setting.h"

namespace pursuit::pca {

// The population risk of a layer. With a = mu^T Sigma mu, b = mu^T Sigma^2 mu and T = tr Sigma,
//   R(mu) = m (T - 2 lambda (p a + q b) + lambda^2 (r a^2 + s a b)),
//                          m  p  q      r          s
//   softmax, L = infinity  1  0  1      0          1
//   linear, any L          1  T  L + 1  (L + 2) T  (L + 2)(L + 3)
// In context, the risk of softmax with L = infinity is the linear one with L = n and Sigma = V, times m = n.
// The stationary points are 0, a maximum, and +- s_i u_i, of which the first pair are minima and the others
// saddles. Eigenvectors count from 0 in arguments, u_1 = vector(0).
class ExactRisk {
 public:
  // Throws Error for the linear layer in context, of which no closed form is known.
  ExactRisk(const Setting& setting, Covariance covariance);

  const Covariance& covariance() const { return sigma_; }
  double operator()(std::span<const double> mu) const;
  // With setting.script_gradient, the term with s counts twice, as in the published script of the exact
  // linear risk: mu turns to u_1 all the same, but ends too short.
  std::vector<double> gradient(std::span<const double> mu) const;

  double stationary_norm(int64_t i) const;       // s_i
  double stationary_risk(int64_t i) const;       // R(s_i u_i)
  double curvature(int64_t i, int64_t j) const;  // at s_i u_i along u_j
  double curvature_at_zero(int64_t j) const;     // along u_j
  // The least curvature at s_1 u_1 besides that along u_1: late, tan of the angle to u_1 falls by the factor
  // 1 - learning rate x this per step.
  double slowest_curvature() const;

 private:
  Covariance sigma_;
  double lambda_, m_ = 1, p_ = 0, q_ = 1, r_ = 0, s_ = 1;
  bool script_gradient_;
};

}  // namespace pursuit::pca
