#pragma once
#include <vector>

#include "engine/core/tensor.h"

// The kernel PCA that attention is said to compute (Teo & Nguyen 2024, section 2), and how far a trained head
// is from it. The kernel is k(x, y) = exp(sigma x.y) with sigma = 1 / sqrt(D), g(x) = sum_j k(x, k_j) over the
// head's keys k_j, and the feature map varphi(x) = phi(x) / g(x) with phi(x).phi(y) = k(x, y).
//
// All tensors are f64 on the CPU and of one head: queries, keys, values and outputs [N, D]. No autograd.
namespace pursuit::nn {

// log g(x_i) of every row, [N]. causal: the sum is over the keys j <= i.
Tensor log_scale(const Tensor& x, const Tensor& keys, bool causal = false);

// The Gram matrix of the centred features of the keys, [N, N]: Kphi(i, j) = k(k_i, k_j) / (g(k_i) g(k_j)),
// less the means of its rows and columns, plus its mean. Its eigenvalues are N lambda_d, at most N.
Tensor centred_gram(const Tensor& keys);

struct KernelPca {
  std::vector<double> eigenvalues;  // of the Gram matrix, all N, descending
  // Of the leading components whose eigenvalue is above rounding, [N, C]: the coefficients a_d with
  // a_d^T K a_d = 1, so that the principal axes are unit vectors, their largest entry positive; and the values
  // G (I - 1/N) a_d, G = diag(1 / g(k_j)), of which attention would make the queries' projections.
  Tensor coefficients, values;
};
KernelPca kernel_pca(const Tensor& keys, int64_t components);

// What the projection of a query onto the principal axes leaves of it, ||varphi(q_i)||^2 - ||h_i||^2 with the
// attention's output h_i, as a mean over the queries.
struct ProjectionError {
  double paper = 0;      // as defined
  double published = 0;  // as the published code computes ||varphi||^2: without sigma in the exponents that
                         // undo the first column of the attention. The code logs this mean's logarithm.
  double reproduction = 0;  // mean of the absolute difference (Karahan et al., arXiv 2505.07908)
  double query = 0;         // mean of ||varphi(q_i)||^2
  double output = 0;        // mean of ||h_i||^2
};
ProjectionError projection_error(const Tensor& queries, const Tensor& keys, const Tensor& output,
                                 bool causal = false);

// The coefficients that values [N, D] imply: y - mean(y) with y_j = g(k_j) v_j, up to one factor for all, which
// keeps large scales finite.
Tensor implied_coefficients(const Tensor& keys, const Tensor& values);

// Whether columns a [N, M] are eigenvectors of the Gram matrix: gamma = (K a) / (N a) is then a constant. Means
// over the columns.
struct EigenvectorCheck {
  double spread = 0;     // mean of |gamma_i - gamma_j| over pairs i != j, as in the paper
  double deviation = 0;  // standard deviation of these
  double relative = 0;   // the spread divided by the mean of |gamma_i|, 0 for an eigenvector
  double cosine = 0;     // |cosine| of a and K a, 1 for an eigenvector
};
EigenvectorCheck eigenvector_check(const Tensor& gram, const Tensor& columns);

// Linear centred kernel alignment of two representations [N, A] and [N, B], in [0, 1] (Kornblith et al. 2019).
double linear_cka(const Tensor& a, const Tensor& b);

// S(j, j') = g(k_j') / (N g(k_j)), which makes softmax(q k^T sigma) (I - S) v the projections (remark 3).
Tensor analytic_s(const Tensor& keys);

// Singular values, descending.
std::vector<double> singular_values(const Tensor& a);

}  // namespace pursuit::nn
