#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "apps/pca/covariance.h"
#include "apps/pca/setting.h"

namespace pursuit::pca {

// What is kept of the runs of a training, [run][record].
using Values = std::vector<std::vector<double>>;

struct Trace {
  std::vector<int64_t> iterations;  // updates done at every record, from 0
  Values cosine, norm;              // |<mu / |mu|, u_1>| and |mu|
  Values risk;                      // exact, or the mean loss of the steps since the record before
  Values oja, sample_pca;           // cosines of the references; empty for exact risks
};

struct Training {
  Setting setting;
  Covariance covariance;  // Sigma or, in context, V
  uint64_t seed = 0;
  int64_t point = 0;    // the place in a sweep, which has prompts of its own
  int64_t records = 1;  // about as many, evenly spread, besides the start; the last is of the last step
  // Called with the steps done since the last call; false ends the training.
  std::function<bool(int64_t)> tick = {};
};

// The covariance of a setting: a fixed Sigma is the published one where there is one of this dimension;
// others, and v, are drawn from the seed.
Covariance covariance_of(const Setting& setting, uint64_t seed);

// The initial mu of every run, [runs][d].
Values starts_of(const Setting& setting, uint64_t seed);

// Trains all runs. Throws Error that names the run and step where mu is not finite any more. The trace is cut
// short if `tick` ends the training.
Trace train(const Training& training);

}  // namespace pursuit::pca
