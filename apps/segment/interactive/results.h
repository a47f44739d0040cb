#pragma once
#include <array>
#include <functional>
#include <string>
#include <vector>

#include "apps/segment/interactive/clicked_picture.h"
#include "apps/study/comparison_page.h"
#include "apps/study/run_page.h"
#include "apps/terminal/progress.h"
#include "apps/terminal/table.h"

namespace pursuit::segment::interactive {

constexpr std::array<double, 3> targets = {0.8, 0.85, 0.9};

// The parts of `answers` (describe_attention) that differ from a run's own, "the run's" if none does: runs
// with other answers of their own share a column.
std::string changed_answers(const std::string& answers, const std::string& own);

// One evaluation: all numbers are of the same objects, weights, robot user and answers.
struct Results : apps::Conditions {
  std::string robot;             // "deepest pixel" or "random, seed 3"
  std::string answers;           // as describe_attention says
  std::vector<double> mean_iou;  // after 1, 2, ... data::kMostClicks clicks
  struct Target {
    double iou = 0;
    double clicks = 0;  // NoC: mean number of clicks until it is reached, kMostClicks where it never is
    int64_t never = 0;
  };
  std::vector<Target> reached;

  // Fills in the scores of at least one curve.
  void set_curves(const std::vector<data::ClickCurve>& curves);
  const Target* at(double iou) const;  // null if there is none
};
nlohmann::ordered_json to_json(const Results& results);
void from_json(const nlohmann::ordered_json& json, std::vector<Results>& all);
bool alike(const Results& a, const Results& b);

using RunRecord = apps::RunRecord<Config, Results>;
// Contents of reports and comparisons.
apps::RunPage page_of(RunRecord& run);
apps::Cells cells_of(const Results& results);
apps::ComparedRun compared(const RunRecord& run);
apps::ComparisonPage comparison_page(const std::vector<RunRecord>& runs);

apps::Table clicks_table(const Results& results);  // number of clicks to each target

// The robot user on every object of the set that is in the share; curves of the others, and of objects that
// replace damaged ones, are empty. A background thread loads the next object. Stops early if that was
// requested.
struct Robot {
  bool random = false;  // see data::next_click; object i draws from streams::robot.at(i) of the seed
  uint64_t seed = 0;
};
std::string describe(const Robot& robot);
struct Curves {
  std::vector<data::ClickCurve> of_objects;
  bool complete = false;
};
Curves click_curves(const nn::InteractiveSegmenter& model, const Config& config,
                    const data::SegmentationDataset& data, const Robot& robot = {},
                    const apps::Tick& tick = {}, const data::Share& share = {});

}  // namespace pursuit::segment::interactive
