#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/classify/pipeline.h"
#include "apps/pictures/corrupted.h"
#include "apps/study/comparison_page.h"
#include "apps/study/run_page.h"

namespace pursuit::classify {

// Accuracies in [0, 1] and the mean cross-entropy; NaN: not known.
struct Scores {
  static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  double top1 = unknown, top5 = unknown, loss = unknown;
};
void write_scores(nlohmann::ordered_json& json, const Scores& scores);
void read_scores(const nlohmann::ordered_json& json, Scores& scores);

// What `eval` measured, all of it on the same pictures with the same weights and the same seed.
struct Results : apps::PictureResults<Scores> {
  std::vector<std::string> classes;  // of the data; the logits of others were left out
  int64_t left_out = 0;              // how many those are
  std::vector<int64_t> confusion;    // [true class, predicted class]

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
  void set_scores(const Totals& totals, const std::vector<std::string>& model_classes,
                  const std::vector<int64_t>& only);
};

// See apps/run/evaluations.h.
nlohmann::ordered_json to_json(const Results& results);
void from_json(const nlohmann::ordered_json& json, std::vector<Results>& all);
Results unite(const Results& old, const Results& fresh);

using RunRecord = apps::RunRecord<Config, Results>;
// What reports and comparisons say; accuracies, errors and mCE in percent.
apps::RunPage page_of(const RunRecord& run);
apps::Cells cells_of(const Results& results);
apps::ComparedRun compared(const RunRecord& run);
apps::ComparisonPage comparison_page(const std::vector<RunRecord>& runs);

// What Results::data says of the test split of a config's data.
std::string describe_data(const Config& config);

// The evaluation that stands for a run: of its own test split, on the pictures it was watched with. Null if
// there is none.
const Results* main_evaluation(const std::vector<Results>& results, const Config& config);

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

// Accuracy (%) over the budgets of one attack, in one space, from no attack (0) on; empty if there are none.
std::vector<std::pair<double, double>> attack_curve(const Results& results, const std::string& attack,
                                                    const std::string& space);

// What the metrics have of a training, of a run or of several.
std::vector<apps::Curve> training_curves(const RunRecord* run = nullptr);

std::string percent(double fraction);                               // "81.25%", "-" if it is not known
std::string budget_text(const std::string& attack, double budget);  // "4/255", "0.1", "-"

}  // namespace pursuit::classify
