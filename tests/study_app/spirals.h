#pragma once
#include <array>
#include <limits>
#include <string>
#include <vector>

#include "apps/run/fields.h"
#include "apps/study/comparison_page.h"
#include "apps/study/evaluation.h"
#include "apps/study/run_page.h"
#include "apps/training/training_run.h"
#include "tests/study_app/model.h"

// A small app that uses the apps' shared code: it classifies points as belonging to one of two spirals.
namespace pursuit::spirals {

struct Config : apps::TrainingFields {
  static constexpr const char *app = "spirals", *unit = "points";
  static constexpr std::array fixed = {"inspect-every"};
  using Model = Net;

  int64_t hidden = 32, points = 4096, test_points = 1000;
  double turns = 1;

  Config() {
    batch_size = 256;
    lr = 0.01;
    weight_decay = 0;
  }
};

template <class C, class F> void for_each_field(C& c, const F& f) {
  f("hidden", c.hidden, "Hidden width", apps::Range{1, 4096});
  f("points", c.points, "Points of an epoch", apps::Range{1, 1e9});
  f("test-points", c.test_points, "Points to test on", apps::Range{1, 1e9});
  f("turns", c.turns, "Turns of a spiral", apps::Range{0.1, 10});
  for_each_training_field(c, f);
}

inline NetConfig model_config(const Config& c) { return {c.hidden}; }
inline std::vector<apps::ModelSize> model_sizes(const Config& c) {
  return {{"hidden", c.hidden, "fc1.weight", 0}};
}
inline void validate(const Config& c) {
  apps::check_fields(Config::app, c);
  apps::validate(Config::app, static_cast<const apps::TrainingFields&>(c));
}

inline apps::ValidationScore validation_score(const Config&) { return {"test_accuracy"}; }

// Results on test points, which training does not use.
struct Results : apps::Conditions {
  uint64_t seed = 0;
  double noise = 0, accuracy = 0;  // noise: standard deviation added to the points' coordinates
};
nlohmann::ordered_json to_json(const Results& results);
void from_json(const nlohmann::ordered_json& json, std::vector<Results>& all);
bool alike(const Results& a, const Results& b);

using RunRecord = apps::RunRecord<Config, Results>;
// The content of reports and comparisons.
apps::RunPage page_of(const RunRecord& run);
apps::Cells cells_of(const Results& results);
apps::ComparedRun compared(const RunRecord& run);
apps::ComparisonPage comparison_page(const std::vector<RunRecord>& runs);

// Measures the accuracy on points drawn from `seed` and stores it in `results`, which has the other
// conditions.
void measure(const Net& model, const Config& config, uint64_t seed, double noise, Results& results);

int train(const Config& config, const apps::RunOptions& options,
          distributed::Communicator& ranks = distributed::alone());

struct EvalOptions : apps::EvalOptions {
  std::vector<double> noise = {0};
  uint64_t seed = 0;
};
int eval(const EvalOptions& options);

struct PredictOptions {
  std::string checkpoint;
  apps::LoadOptions load;
  std::vector<double> points;  // x, y, x, y ...
};
int predict(const PredictOptions& options);

}  // namespace pursuit::spirals
