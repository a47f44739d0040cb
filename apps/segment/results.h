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

// The usual three numbers of semantic segmentation, in [0, 1]; -1 where no pixel was counted.
struct Scores {
  double pixel_accuracy = -1, mean_accuracy = -1, mean_iou = -1;
};
Scores scores_of(const nn::ConfusionMatrix& matrix);

void write_scores(nlohmann::ordered_json& json, const Scores& scores);
void read_scores(const nlohmann::ordered_json& json, Scores& scores);

// What `eval` measured, all of it on the same pictures with the same weights, views and seed.
struct Results : apps::PictureResults<Scores> {
  std::string views;  // how the pictures were looked at: "shorter side 144, stride 72, scales 0.75,1, flip"
  std::vector<std::string> classes;
  std::vector<double> iou, accuracy;  // of each class, -1 where it has none
  std::vector<int64_t> pixels;        // labelled with each class

  // Fills in what was found on `count` pictures, of each of `classes`.
  void set_scores(const nn::ConfusionMatrix& matrix, int64_t count, const std::vector<std::string>& classes);
};

// See apps/run/evaluations.h.
nlohmann::ordered_json to_json(const Results& results);
void from_json(const nlohmann::ordered_json& json, std::vector<Results>& all);
bool alike(const Results& a, const Results& b);
Results unite(const Results& old, const Results& fresh);

using RunRecord = apps::RunRecord<Config, Results>;
// What reports and comparisons say; scores in percent.
apps::RunPage page_of(const RunRecord& run);
apps::Cells cells_of(const Results& results);
apps::ComparedRun compared(const RunRecord& run);
apps::ComparisonPage comparison_page(const std::vector<RunRecord>& runs);

// The evaluation that stands for a run: of the test split if there is one, else of the one watched in
// training, looked at as the run's settings say. Null if there is none.
const Results* main_evaluation(const std::vector<Results>& results, const Config& config);

// Mean over the corruption types at one severity; empty if none was evaluated.
std::optional<Scores> mean_corrupted(const std::vector<apps::Corrupted<Scores>>& corrupted, int severity);

apps::Table class_table(const Results& results);       // IoU and accuracy of each class, in %
apps::Table corruption_table(const Results& results);  // mIoU of each type and severity and their means, in %

std::string percent(double fraction);  // "81.25", "-" for -1

}  // namespace pursuit::segment
