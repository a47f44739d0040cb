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

// Accuracies and the expected calibration error (nn/calibration.h) in [0, 1], and the mean cross-entropy;
// NaN: not known.
struct Scores {
  static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  double top1 = unknown, top5 = unknown, loss = unknown, ece = unknown;
};
Scores scores_of(const Totals& totals);
void write_scores(nlohmann::ordered_json& json, const Scores& scores);
void read_scores(const nlohmann::ordered_json& json, Scores& scores);

// One evaluation: all numbers are of the same pictures, weights and seed.
struct Results : apps::PictureResults<Scores> {
  std::vector<std::string> classes;  // those of the data; logits of the model's other classes are left out
  int64_t left_out = 0;              // number of classes left out
  std::vector<int64_t> confusion;    // counts [true class, predicted class]
  nn::Calibration calibration;       // on clean pictures; no rows: not measured

  struct Attacked {
    std::string attack, space;  // space: "normalised" or "pixel"
    double budget = 0;          // see attacks::Settings; without a norm the attack's own; 0: no bound
    std::string settings;       // for example "20 steps of 0.15 of the budget"
    double top1 = 0, top5 = 0;
    double l2 = 0;               // mean l2 norm of the perturbations in that space, 0 for unchanged ones
    std::string arguments = {};  // options of `eval` that give these settings; empty: the defaults
    int64_t steps = 0;           // of an attack with so many; 0: not known
    // The run whose model was attacked (--attacked-by), and what it attends with; empty: the evaluated one's.
    std::string surrogate = {}, surrogate_attention = {};
  };
  std::vector<Attacked> attacked;

  // How well pictures of no class are told from those of the data, as on ImageNet-O. The areas under the
  // precision-recall curve are of two scores of strangeness: the largest probability (the smaller the
  // stranger) and the energy -log sum exp of the logits (Liu et al. 2020); logits as in restricted().
  struct Outliers {
    std::string data, fingerprint;
    int64_t count = 0, inliers = 0, classes = 0;  // outliers, the data's pictures of their classes
    double aupr_probability = 0, aupr_energy = 0;
    std::string arguments;  // options of `eval` that repeat it
  };
  std::vector<Outliers> outliers;

  // Fills in the classes of the data; `only` as in restricted().
  void set_classes(const std::vector<std::string>& model_classes, const std::vector<int64_t>& only);
  // Fills in the scores on clean pictures.
  void set_scores(const Totals& totals, const std::vector<std::string>& model_classes,
                  const std::vector<int64_t>& only);
};

// Entries of eval.json, see apps/run/evaluations.h.
nlohmann::ordered_json to_json(const Results& results);
void from_json(const nlohmann::ordered_json& json, std::vector<Results>& all);
Results unite(const Results& old, const Results& fresh);

using RunRecord = apps::RunRecord<Config, Results>;
// Contents of reports and comparisons; accuracies, errors and mCE in percent.
apps::RunPage page_of(RunRecord& run);
apps::Cells cells_of(const Results& results);
apps::ComparedRun compared(const RunRecord& run);
apps::ComparisonPage comparison_page(const std::vector<RunRecord>& runs);

// Results::data for the split that training evaluates, for example "cifar10 test".
std::string data_name(const Config& config);  // "cifar10"
std::string describe_data(const Config& config);

// The run's main evaluation: on its own test split, preferably on the pictures that training evaluated; on
// its validation pictures if there is none of the test split. Null if there is none.
const Results* main_evaluation(const std::vector<Results>& results, const Config& config);

// Means of one corruption over the evaluated severities.
struct CorruptionSummary {
  std::string name;
  int severities = 0;
  double top1 = 0, top5 = 0;
  std::optional<double> error;  // mean error, only if all five severities were evaluated
  std::optional<double> ce;     // the error divided by AlexNet's, only for ImageNet's 1000 classes
};
std::vector<CorruptionSummary> summarise(const Results& results);
// Mean top-1 over the corruptions; empty if there are none.
std::optional<double> mean_corrupted_top1(const Results& results);

// Mean error over the 15 corruptions. For ImageNet's 1000 classes each error is divided by AlexNet's (mCE,
// Hendrycks & Dietterich, ICLR 2019), so that it may exceed 1. Empty unless every corruption was evaluated at
// all five severities.
struct MeanCorruptionError {
  double value = 0;
  bool relative = false;  // to AlexNet's error
  const char* name() const { return relative ? "mCE" : "mean corruption error"; }
};
std::optional<MeanCorruptionError> mean_corruption_error(const Results& results);

// Points (budget, accuracy in %) of one attack in one space, with (0, clean accuracy) first; empty if the
// attack was not run. Of several settings those with most budgets count; none of other models
// (--attacked-by).
std::vector<std::pair<double, double>> attack_curve(const Results& results, const std::string& attack,
                                                    const std::string& space);

// The training curves of one run's report, or of a comparison of several (null).
std::vector<apps::Curve> training_curves(const RunRecord* run = nullptr);

// A row per set of outliers; areas in percent, beside the share of outliers, which chance reaches.
apps::Table outlier_table(const Results& results);

std::string percent(double fraction);  // "81.25%"; "-" for NaN
// Signs that the model hides its gradient rather than resists (Athalye et al. 2018), in lines: Square,
// without gradients, does better than an attack with them; more steps of an attack leave more right; a whole
// range of pixels does not bring the accuracy to 0. Attacks on other models (--attacked-by) do not count.
std::vector<std::string> masking_notes(const Results& results);
// Attacks whose budgets can be swept, and the title of that axis.
struct Swept {
  std::string attack, title, axis;  // "pgd", "PGD", "budget (1/255)"
};
std::vector<Swept> swept_attacks();
std::optional<attacks::Norm> norm_of(const std::string& attack);    // empty also for an unknown attack
std::string budget_text(const std::string& attack, double budget);  // "4/255", "0.1", "-"
std::string attack_title(const Results::Attacked& attacked);        // "pgd", "pgd by softmax-0"

}  // namespace pursuit::classify
