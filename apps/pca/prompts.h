#pragma once
#include <cstdint>
#include <vector>

#include "apps/pca/covariance.h"
#include "apps/pca/setting.h"
#include "engine/core/tensor.h"

namespace pursuit::pca {

// The prompts of the steps of a training. What a run sees does not depend on the number of runs.
class PromptSource {
 public:
  // `covariance` is Sigma or, in context, V.
  PromptSource(const Setting& setting, const Covariance& covariance, uint64_t seed, int64_t point);

  // f32 [runs, prompts of a step, L, d], drawn anew for every step (from 1).
  Tensor draw(int64_t step) const;

 private:
  // The Cholesky factors of a run's covariances in a step, [covariances, d, d].
  std::vector<double> factors(int64_t step, int64_t run) const;

  Setting setting_;
  std::vector<double> factor_;  // of Sigma or V, [d, d]
  uint64_t seed_;
  int64_t point_;
};

}  // namespace pursuit::pca
