#pragma once
#include <vector>

#include "engine/base/choice.h"
#include "engine/core/tensor.h"

// Probabilistic attention (Gabbur, Bilkhu & Movellan 2021, arXiv 2106.15338): attention as inference in a
// mixture of Gaussians. Unit j of a head's N units makes a query and a value, independently of each other:
//   p(q, v) = sum_j pi_j N(q; zeta_j, I / alpha_j) N(v; mu_j, I / beta_j)
// with keys zeta and values mu. A token attends to the units by their posterior given its query, and its
// value where that is known:
//   w_ij = softmax_j(log pi_j - alpha_j / 2 |q_i - zeta_j|^2 - beta_j / 2 |v_i - mu_j|^2)                (1)
// This is one softmax over an inner product: a further column of the queries is 1, and that of the keys holds
// what depends on the unit alone. So pursuit::attention and attention_transposed do the work, and no N x N
// matrix is stored but by posterior and positional_values. All functions are differentiable in all tensors,
// through all iterations. Tensors are f32 or f64; a column of bf16 would be too coarse.
namespace pursuit::nn {

struct GaussianUnits {
  Tensor keys;            // zeta [B, H, N, D]
  Tensor values;          // mu [B, H, N, E]
  Tensor alpha;           // [1], shared by all units, or [B, H, N]
  Tensor beta = {};       // likewise; for known values
  Tensor log_prior = {};  // log pi [B, H, N], up to a constant; undefined: uniform
  // Whether (1) also has D / 2 log alpha_j + E / 2 log beta_j, which the published layer leaves out.
  bool normalised = false;
};

// The prior that turns (1) into dot products, pi_j = exp(precision_j / 2 |mean_j|^2), as a logarithm [B, H,
// N]. With that of the keys, alpha = 1 / sqrt(D) is scaled dot-product attention.
Tensor magnitude_prior(const Tensor& means, const Tensor& precision);

// w [B, H, M, N] of queries q [B, H, M, D] with values v [B, H, M, E] (undefined: unknown). Causal queries
// are the last M of the N tokens.
Tensor posterior(const GaussianUnits& units, const Tensor& q, const Tensor& v = {}, bool causal = false);

// E[v | q]: sum_j w_ij mu_j [B, H, N, E] of N queries.
Tensor expected_values(const GaussianUnits& units, const Tensor& q, const Tensor& v = {},
                       bool causal = false);

// Priors of units by what their logarithm is.
enum class UnitPrior { uniform, magnitude, learned };
inline std::vector<Choice<UnitPrior>> choices_of(UnitPrior) {
  return {{"uniform", UnitPrior::uniform, "weighs keys by their distance to the query"},
          {"magnitude", UnitPrior::magnitude, "of the projected keys, which makes distances dot products"},
          {"learned", UnitPrior::learned, "exp(<key, weight>) with a weight a head"}};
}

// Where the prior of adapted means is centred: at the first ones (EM for the penalised likelihood), or at
// those of the iteration before, as in the published layer, so that it is forgotten.
enum class PriorCentre { fixed, moving };
inline std::vector<Choice<PriorCentre>> choices_of(PriorCentre) {
  return {{"fixed", PriorCentre::fixed, "the projected keys"},
          {"moving", PriorCentre::moving, "the keys of the iteration before, as in the published layer"}};
}

// EM on the keys, for the queries at hand, iterations times:
//   zeta_j <- (theta zeta0_j + alpha_j sum_i w_ij q_i) / (theta + alpha_j sum_i w_ij)
// A unit that no query attends to keeps its key, also if theta is 0 (no prior).
struct KeyAdaptation {
  int iterations = 1;
  Tensor theta;  // [1] or [B, H, N], the precision of a key's prior
  PriorCentre centre = PriorCentre::fixed;
  // The prior of the units becomes magnitude_prior of the new keys after every update, as in the published
  // layer: then it is not EM, and the likelihood may fall.
  bool refresh_prior = false;
};
GaussianUnits adapt_keys(const GaussianUnits& units, const Tensor& q, const KeyAdaptation& how);

// EM on the values: the units that known values v [B, H, A, E] of tokens with queries q [B, H, A, D] belong
// to move towards them, iterations times:
//   mu_j <- (theta mu0_j + beta_j sum_i a_i w_ij v_i) / (theta + beta_j sum_i a_i w_ij)
// With units.beta defined w is the posterior given q and v, which is EM; else given q alone.
struct ValuePropagation {
  int iterations = 1;
  Tensor theta;  // [1] or [B, H, N], the precision of a value's prior
  Tensor beta;   // likewise, the precision of v in the update
  PriorCentre centre = PriorCentre::fixed;
};
// known [B, 1 or H, A]: 1 for a known value, 0 for a row that fills up the tensor.
GaussianUnits propagate_values(const GaussianUnits& units, const Tensor& q, const Tensor& v,
                               const Tensor& known, const ValuePropagation& how);

// EM on a token's value for its most probable one given q [B, H, N, D], from expected_values on, iterations
// times:
//   v_i <- sum_j w_ij beta_j mu_j / sum_j w_ij beta_j
Tensor infer_values(const GaussianUnits& units, const Tensor& q, int iterations);

// Position-aware form for one axis of N places: p(q_i | j) also has the factors N(q_i; r_q[i][j], I / alpha)
// and N(zeta_j; r_k[j][i], I / alpha). `queries` and `keys` are the tables r_q, r_k [N, N, D], and `values`
// is r_v [N, N, E], whose mean by w is a second result.
struct PositionTables {
  Tensor queries, keys, values;
};
struct PositionalValues {
  Tensor values;     // sum_j w_ij mu_j, [B, H, N, E]
  Tensor positions;  // sum_j w_ij r_v[i][j], [B, H, N, E]
};
// With the magnitude prior of all factors w_ij = softmax_j(alpha (q_i zeta_j + q_i r_q[i][j] + zeta_j
// r_k[j][i])), as in axial attention. Stores w; alpha shared by all units.
PositionalValues positional_values(const GaussianUnits& units, const Tensor& q, const PositionTables& tables,
                                   bool magnitude);

}  // namespace pursuit::nn
