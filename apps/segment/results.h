#pragma once
#include <optional>
#include <string>
#include <vector>

#include "apps/pictures/corrupted.h"
#include "apps/segment/config.h"
#include "apps/study/comparison_page.h"
#include "apps/study/run_page.h"
#include "apps/terminal/table.h"
#include "nn/metrics.h"

namespace pursuit::segment {

// Metrics of semantic segmentation in [0, 1]; -1 if no pixel was counted.
struct Scores {
  double pixel_accuracy = -1, mean_accuracy = -1, mean_iou = -1;
};
Scores scores_of(const nn::ConfusionMatrix& matrix);

void write_scores(nlohmann::ordered_json& json, const Scores& scores);
void read_scores(const nlohmann::ordered_json& json, Scores& scores);

// One evaluation: all numbers are of the same pictures, weights, views and seed.
struct Results : apps::PictureResults<Scores> {
  std::string views;  // as describe(Views) prints them
  std::vector<std::string> classes;
  std::vector<double> iou, accuracy;  // per class; -1 if it has no pixels
  std::vector<int64_t> pixels;        // labelled pixels per class

  // Under attacks on the pixels of a view, clipped to [0, 1], away from the labels.
  struct Attacked {
    std::string attack;
    double budget = 0;     // l_inf in 1/255
    std::string settings;  // for example "20 steps of 0.15 of the budget"
    Scores scores;
    std::string arguments = {};  // options of `eval` that give these settings; empty: the defaults
  };
  std::vector<Attacked> attacked;

  // Fills in the scores on `count` pictures.
  void set_scores(const nn::ConfusionMatrix& matrix, int64_t count, const std::vector<std::string>& classes);
};

// Entries of eval.json, see apps/run/evaluations.h.
nlohmann::ordered_json to_json(const Results& results);
void from_json(const nlohmann::ordered_json& json, std::vector<Results>& all);
bool alike(const Results& a, const Results& b);
Results unite(const Results& old, const Results& fresh);

using RunRecord = apps::RunRecord<Config, Results>;
// Contents of reports and comparisons; scores in percent.
apps::RunPage page_of(RunRecord& run);
apps::Cells cells_of(const Results& results);
apps::ComparedRun compared(const RunRecord& run);
apps::ComparisonPage comparison_page(const std::vector<RunRecord>& runs);

// The run's main evaluation: with the run's views, on the test split if that was evaluated, else on the split
// that training evaluates. Null if there is none.
const Results* main_evaluation(const std::vector<Results>& results, const Config& config);

// Mean scores over the corruptions at one severity; empty if none was evaluated.
std::optional<Scores> mean_corrupted(const std::vector<apps::Corrupted<Scores>>& corrupted, int severity);

apps::Table class_table(const Results& results);       // IoU and accuracy of each class, in %
apps::Table corruption_table(const Results& results);  // mIoU per corruption and severity, with means, in %

apps::Table attack_table(const Results& results);  // scores without and under each attack, in %

std::string percent(double fraction);  // "81.25"; "-" for -1

}  // namespace pursuit::segment
