#pragma once
#include <cstdint>
#include <vector>

#include "apps/pca/covariance.h"

// What the published scripts draw of the experiments on exact risks: a fixed Sigma, then ten starts. Their
// key, PRNGKey(0), is split before every draw; the sweeps over d go on with it.
namespace pursuit::pca {

// Whether there is a Sigma of this dimension: 5, and 3, 8, ..., 98 of the sweeps.
bool is_published(int64_t dim);
// Eigenvalues for d = 5: 15.769, 10.904, 5.427, 2.630, 0.503.
Covariance published_covariance(int64_t dim = 5);

constexpr int64_t published_runs = 10;
// Standard normal numbers [d], from which the start of run 0 ... 9 is made.
std::vector<double> published_start(int64_t dim, int64_t run);

}  // namespace pursuit::pca
