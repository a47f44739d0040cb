#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/common/evaluations.h"
#include "apps/common/json.h"
#include "apps/common/table.h"
#include "nn/metrics.h"

namespace pursuit::segment {

// The usual three numbers of semantic segmentation, in [0, 1]; -1 where no pixel was counted.
struct Scores {
  double pixel_accuracy = 0, mean_accuracy = 0, mean_iou = 0;
};
Scores scores_of(const nn::ConfusionMatrix& matrix);

// What `eval` measured, all of it on the same pictures with the same weights, views and seed.
struct Results : apps::Conditions {
  std::string views;  // how the pictures were looked at: "shorter side 144, stride 72, scales 0.75,1, flip"
  uint64_t seed = 0;  // of the corruptions
  std::string frost =
      "drawn";    // crystals of the corruption frost: drawn, or the name of a folder of overlays
  Scores scores;  // of the pictures as they are; -1: not measured on just these
  std::vector<std::string> classes;
  std::vector<double> iou, accuracy;  // of each class, -1 where it has none
  std::vector<int64_t> pixels;        // labelled with each class

  struct Corrupted {
    std::string name;
    int severity = 0;
    Scores scores;
  };
  std::vector<Corrupted> corrupted;

  // Fills in what was found on `count` pictures, of each of `classes`.
  void set_scores(const nn::ConfusionMatrix& matrix, int64_t count, const std::vector<std::string>& classes);
};

nlohmann::ordered_json to_json(const Results& results);

// The evaluations in a run's folder, the one written last at the end; none if there is no eval.json. Throws
// Error that names the file if it is damaged.
std::vector<Results> read_results(const std::string& folder);

// Whether they were measured alike, so that they are of one table.
bool alike(const Results& a, const Results& b);

// Adds to the folder's eval.json, atomically: to the one that was measured alike, where a new number takes
// the place of an old one of the same corruption and severity; beside the others otherwise.
void merge_results(const std::string& folder, const Results& results);

// Mean over the corruption types at one severity; empty if none was evaluated.
std::optional<Scores> mean_corrupted(const std::vector<Results::Corrupted>& corrupted, int severity);
std::vector<int> severities_of(const std::vector<Results::Corrupted>& corrupted);  // rising

apps::Table class_table(const Results& results);       // IoU and accuracy of each class, in %
apps::Table corruption_table(const Results& results);  // mIoU of each type and severity and their means, in %

std::string percent(double fraction);  // "81.25", "-" for -1

}  // namespace pursuit::segment
