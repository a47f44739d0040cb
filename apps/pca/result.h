#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/pca/experiments.h"
#include "apps/pca/risk.h"
#include "apps/pca/training.h"

namespace pursuit::pca {

// What came out of an experiment: FOLDER/NAME.json, from which the page is made, and NAME.csv with the same
// numbers.
struct Result {
  Experiment experiment;
  uint64_t seed = 0;
  double seconds = 0;
  std::vector<double> x;      // iterations of the records, or L or d
  Values cosine, norm, risk;  // [run][x]
  // Cosines; for drawn prompts, else empty: the references, and descents on the exact risk from the same
  // starts.
  Values oja, sample_pca, exact;
};

// Runs the experiment; the points of a sweep side by side. `tick` may come from several threads, one at a
// time; where it returns false there is no result.
std::optional<Result> run_experiment(const Experiment& experiment, uint64_t seed,
                                     const std::function<bool(int64_t)>& tick);
int64_t steps_of(const Experiment& experiment);  // of all points

// The exact risk of what was trained at x, with its stationary points and rates.
ExactRisk theory_at(const Result& result, double x);
// The value at this x of every run; x must be one of result.x.
std::vector<double> values_at(const Result& result, const Values& values, double x);

void write_result(const Result& result, const std::string& folder);  // the CSV first
// nullopt if there is none. Throws Error that names the file if it is damaged.
std::optional<Result> read_result(const std::string& folder, const std::string& name);

}  // namespace pursuit::pca
