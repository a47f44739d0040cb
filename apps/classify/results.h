#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/classify/config.h"

namespace pursuit::classify {

// What `eval` measured for one set of weights on one data set. Accuracies are in [0, 1].
struct Results {
  std::string data;   // without paths: "cifar10 test", "folder other-data test"
  bool ema = false;   // of the averaged weights
  int64_t step = 0;   // optimizer steps behind the weights
  uint64_t seed = 0;  // of corruptions and attacks
  int64_t count = 0;  // pictures of the clean evaluation; 0: there was none
  double top1 = 0, top5 = 0, loss = 0;
  std::vector<std::string> classes;
  std::vector<int64_t> confusion;  // [true class, predicted class]

  struct Corrupted {
    std::string name;
    int severity = 0;
    int64_t count = 0;
    double top1 = 0, top5 = 0;
  };
  std::vector<Corrupted> corrupted;

  struct Attacked {
    std::string attack, space;  // space: "normalised" or "pixel"
    double budget = 0;          // fgsm, pgd: l_inf in 1/255; spsa, noise: l_inf; sld: l1; cw: 0, no bound
    int64_t count = 0;
    double top1 = 0, top5 = 0;
    double l2 = 0;  // mean length of the perturbations in that space
  };
  std::vector<Attacked> attacked;
};

// What Results::data says of the test split of a config's data.
std::string describe_data(const Config& config);

nlohmann::ordered_json to_json(const Results& results);

// The evaluation written last in a run's folder; empty if there is no eval.json. Throws Error that names the
// file if it is damaged.
std::optional<Results> read_results(const std::string& folder);

// Adds to the folder's eval.json, atomically. Results of the same data and weights are kept: a new number
// takes the place of an old one of the same corruption and severity, or attack, space and budget, unless the
// old one saw more pictures. Results of other weights (another step) are dropped.
void merge_results(const std::string& folder, const Results& results);

// One corruption over the severities that were evaluated. `ce`, once all five were: its error divided by
// AlexNet's.
struct CorruptionSummary {
  std::string name;
  int severities = 0;
  double top1 = 0, top5 = 0;
  std::optional<double> ce;
};
std::vector<CorruptionSummary> summarise(const std::vector<Results::Corrupted>& corrupted);
// Mean over the corruptions' top-1; empty if there are none.
std::optional<double> mean_corrupted_top1(const std::vector<Results::Corrupted>& corrupted);
// Mean corruption error (Hendrycks & Dietterich, ICLR 2019), in [0, 1] and above; empty unless all 15
// corruptions were evaluated at all five severities.
std::optional<double> mean_corruption_error(const std::vector<Results::Corrupted>& corrupted);

}  // namespace pursuit::classify
