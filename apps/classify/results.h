#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "apps/classify/pipeline.h"
#include "apps/common/evaluations.h"
#include "apps/common/json.h"

namespace pursuit::classify {

// What `eval` measured, all of it on the same pictures with the same weights and the same seed. Accuracies
// are in [0, 1].
struct Results : apps::Conditions {
  uint64_t seed = 0;  // of corruptions and attacks
  std::string frost =
      "drawn";  // crystals of the corruption frost: drawn, or the name of a folder of overlays
  // Of the pictures as they are; NaN: not measured on just these.
  double top1 = std::numeric_limits<double>::quiet_NaN(), top5 = top1, loss = top1;
  std::vector<std::string> classes;  // of the data; the logits of others were left out
  int64_t left_out = 0;              // how many those are
  std::vector<int64_t> confusion;    // [true class, predicted class]

  struct Corrupted {
    std::string name;
    int severity = 0;
    double top1 = 0, top5 = 0;
  };
  std::vector<Corrupted> corrupted;

  struct Attacked {
    std::string attack, space;  // space: "normalised" or "pixel"
    double budget = 0;          // fgsm, pgd: l_inf in 1/255; spsa, noise: l_inf; sld: l1; cw: 0, no bound
    std::string settings;       // "20 steps of 0.15 of the budget"
    double top1 = 0, top5 = 0;
    double l2 = 0;               // mean length of the perturbations in that space
    std::string arguments = {};  // of `eval` that lead to these settings, empty: the usual ones
  };
  std::vector<Attacked> attacked;

  // What was found on the pictures as they are; `only` as in restricted().
  void set_score(const Score& score, const std::vector<std::string>& model_classes,
                 const std::vector<int64_t>& only);
};

// Whether they were measured alike, so that they are of one table.
bool alike(const Results& a, const Results& b);

// What Results::data says of the test split of a config's data.
std::string describe_data(const Config& config);

nlohmann::ordered_json to_json(const Results& results);

// The evaluations in a run's folder, the one written last at the end; none if there is no eval.json. Throws
// Error that names the file if it is damaged.
std::vector<Results> read_results(const std::string& folder);

// Adds to the folder's eval.json, atomically: to the one that was measured alike, where a new number takes
// the place of an old one of the same corruption and severity, or attack, space, budget and settings; beside
// the others otherwise.
void merge_results(const std::string& folder, const Results& results);

// One corruption over the severities that were evaluated.
struct CorruptionSummary {
  std::string name;
  int severities = 0;
  double top1 = 0, top5 = 0;
  std::optional<double> error;  // once all five were: the mean error ...
  std::optional<double> ce;     // ... and divided by AlexNet's, for ImageNet's 1000 classes
};
std::vector<CorruptionSummary> summarise(const Results& results);
// Mean over the corruptions' top-1; empty if there are none.
std::optional<double> mean_corrupted_top1(const Results& results);

// Mean over the 15 corruptions of their errors, in [0, 1] and above. For ImageNet's 1000 classes each is
// divided by AlexNet's (mCE, Hendrycks & Dietterich, ICLR 2019); that is defined for no others. Empty unless
// all were evaluated at all five severities.
struct MeanCorruptionError {
  double value = 0;
  bool relative = false;  // to AlexNet
  const char* name() const { return relative ? "mCE" : "mean corruption error"; }
};
std::optional<MeanCorruptionError> mean_corruption_error(const Results& results);

}  // namespace pursuit::classify
