#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/choice.h"

// Attention-based PCA (Maulen-Soto & Boyer, arXiv 2605.18315). Tokens X_1 ... X_L of a prompt are N(0, Sigma)
// in R^d. One attention layer with the query-key matrix lambda mu mu^T, identity values and the query X_1
// reconstructs X_1; mu in R^d minimises R(mu) = E |X_1 - output|^2 by (stochastic) gradient descent and turns
// to the leading eigenvector of Sigma. In context every prompt has a covariance of its own, a Wishart matrix
// of n vectors N(0, V), V = xi^2 I + theta v v^T, and mu turns to v.
namespace pursuit::pca {

// output = sum_k w_k X_k; softmax: w_k ~ exp(lambda (X_1 mu) (X_k mu)), linear: w_k = lambda (X_1 mu)(X_k mu)
enum class Layer { softmax, linear };
inline std::vector<Choice<Layer>> choices_of(Layer) {
  return {{"softmax", Layer::softmax}, {"linear", Layer::linear}};
}

// drawn: prompts of L tokens drawn at every step, and the tape. exact: the risk in closed form, of L ->
// infinity for softmax and of any L for the linear layer.
enum class Prompts { drawn, exact };
inline std::vector<Choice<Prompts>> choices_of(Prompts) {
  return {{"drawn", Prompts::drawn, "at every step"}, {"exact", Prompts::exact, "the risk in closed form"}};
}

// One training: the model, its data and plain gradient descent with a constant step.
struct Setting {
  Layer layer = Layer::softmax;
  Prompts prompts = Prompts::exact;
  bool in_context = false;
  int64_t dim = 5;       // d
  int64_t length = 100;  // L; of no meaning for the exact risk of softmax
  int64_t vectors = 10;  // n of the Wishart matrices
  double theta = 2;      // of the spike; xi is 1 in all experiments
  double lambda = 0.01, learning_rate = 1e-3;
  int64_t steps = 3000, runs = 10;
  int64_t covariances = 1, per_covariance = 256;  // prompts of a step: their product
  double start = 0;              // standard deviation of the initial mu's elements; 0: uniform, of norm 1
  bool script_gradient = false;  // of the exact linear risk, as the published script has it: ExactRisk

  bool operator==(const Setting&) const = default;
};

// What may be asked for. A step's prompts have at most 2^28 numbers, 1 GiB.
constexpr int64_t most_runs = 1000, most_steps = 10'000'000, most_sweep_value = 300, most_sweep_points = 100;
constexpr int64_t most_numbers = int64_t(1) << 28;

// The name, the values and the help of what a user may see or set.
template <class S, class F> void for_each_field(S& s, const F& f) {
  f("layer", s.layer, "");
  f("prompts", s.prompts, "");
  f("in-context", s.in_context, "");
  f("dim", s.dim, "");
  f("length", s.length, "");
  f("vectors", s.vectors, "");
  f("theta", s.theta, "");
  f("lambda", s.lambda, "");
  f("learning-rate", s.learning_rate, "");
  f("steps", s.steps, "");
  f("runs", s.runs, "");
  f("covariances", s.covariances, "");
  f("per-covariance", s.per_covariance, "");
  f("start", s.start, "");
  f("script-gradient", s.script_gradient, "");
}

}  // namespace pursuit::pca
