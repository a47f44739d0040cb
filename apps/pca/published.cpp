#include "apps/pca/published.h"

#include <fmt/format.h>

#include "apps/pca/threefry.h"
#include "engine/base/error.h"

namespace pursuit::pca {

namespace {

// n normal numbers of draw `number` of a dimension: 0 for Sigma, 1 + run for a start.
std::vector<double> drawn(int64_t dim, int64_t number, int64_t n) {
  if (!is_published(dim)) fail("pca", fmt::format("there is no published covariance with d = {}", dim));
  const int64_t before = dim == 5 ? 0 : (dim - 3) / 5 * (1 + published_runs);
  Words key = {0, 0};
  for (int64_t draw = 0; draw < before + number; ++draw) key = split(key, 0);
  return threefry_normals(split(key, 1), n);
}

}  // namespace

bool is_published(int64_t dim) { return dim == 5 || (3 <= dim && dim <= 98 && dim % 5 == 3); }

Covariance published_covariance(int64_t dim) { return covariance_of_factor(drawn(dim, 0, dim * dim), dim); }

std::vector<double> published_start(int64_t dim, int64_t run) { return drawn(dim, 1 + run, dim); }

}  // namespace pursuit::pca
