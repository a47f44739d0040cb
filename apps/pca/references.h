#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "apps/pca/covariance.h"
#include "engine/core/tensor.h"

namespace pursuit::pca {

// Two ways to the leading direction that see the same tokens as attention does, one state a run:
// - sample PCA: the top eigenvector of the second moment of all tokens so far;
// - Oja's rule (Oja 1982) on the second moment C_t of the tokens of step t: w <- w + eta_t C_t w, normalised;
//   eta_t = 2 d / (t tr C) with C that of all tokens so far. w begins where mu does.
class References {
 public:
  explicit References(const std::vector<std::vector<double>>& starts);

  void add(const Tensor& prompts);                                // [runs, prompts, L, d] of the next step
  double oja(int64_t run, std::span<const double> target) const;  // absolute cosine
  double sample_pca(int64_t run, std::span<const double> target) const;  // the same

 private:
  std::vector<std::vector<double>> oja_;      // [runs][d]
  std::vector<std::vector<double>> moments_;  // [runs][d * d], the sum of all C_t
};

}  // namespace pursuit::pca
