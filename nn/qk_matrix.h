#pragma once
#include <complex>
#include <vector>

#include "engine/core/tensor.h"

// Statistics of a head's query-key matrix W = W_Q^T W_K [d, d], computed from W_Q and W_K [d_h, d] without
// forming a d x d matrix. After Bao, Hataya & Karakida, "Self-attention Networks Localize When
// QK-eigenspectrum Concentrates", ICML 2024. W excludes the projections' biases and the scores' scale.
namespace pursuit::nn {

// For one head or, with leading dimensions, many: W_Q and W_K [..., d_h, d], floating point, of the same
// shape. The results are [...], with autograd.
Tensor qk_trace(const Tensor& query, const Tensor& key);            // tr W
Tensor qk_frobenius2(const Tensor& query, const Tensor& key);       // |W|_F^2
Tensor qk_trace_of_square(const Tensor& query, const Tensor& key);  // tr W^2

struct QkStatistics {
  int64_t width = 0;  // d
  double trace = 0, frobenius2 = 0, trace_of_square = 0;

  // tr W / |W|_F, within +-sqrt(d): how concentrated the eigenvalues are. 0 if W = 0.
  double concentration() const;
  // tr W / sqrt(tr W^2), the same for a symmetric W; NaN if tr W^2 is not positive.
  double concentration_of_square() const;
};
QkStatistics qk_statistics(const Tensor& query, const Tensor& key);  // of one head, in f64, no autograd

// The d_h eigenvalues of W that can be nonzero, by descending modulus. For one head.
std::vector<std::complex<double>> qk_eigenvalues(const Tensor& query, const Tensor& key);

// The probability that softmax, clipped to its first-order expansion, passes a gradient to token i = 1 .. T
// if the tokens are a random walk with N(0, I) steps: rho_i = P(-1 < omega_i - mean omega < T - 1) with
// omega_i = x_i^T W x_T / temperature, using the Gaussian approximation of omega_i - mean omega.
std::vector<double> signal_propagation(const QkStatistics& w, double temperature, int64_t tokens);

// The Monte Carlo value of rho: the share of `walks` simulated random walks for which the inequality holds, for
// all heads on the same walks. W_Q and W_K [heads, d_h, d]; returns [heads, T], f32, on the CPU. The standard
// error is at most 0.5 / sqrt(walks).
Tensor simulated_propagation(const Tensor& query, const Tensor& key, double temperature, int64_t tokens,
                             int64_t walks, uint64_t seed);

}  // namespace pursuit::nn
