#include <fmt/format.h>

#include <filesystem>
#include <set>

#include "apps/command/checks.h"
#include "apps/segment/commands.h"
#include "apps/segment/pipeline.h"
#include "apps/segment/results.h"
#include "data/fingerprint.h"
#include "engine/base/error.h"

// `segment eval` writes its results to stdout and, for a run's folder, to eval.json (see results.h):
//   {"evaluations": [{"data", "fingerprint", "count", "weights", "step", "dtype", "options",
//                     "made_by", "run", "seed", "frost", "views",
//                     "scores": {"pixel_accuracy", "mean_accuracy", "mean_iou"},
//                     "classes": [{"name", "iou", "accuracy", "pixels"}],
//                     "corrupted": [{"name", "severity", "count", "scores"}]}]}
// An entry holds the results of one set of pictures and conditions; the newest is last. Scores are in [0, 1],
// -1 if no pixel was counted.
namespace pursuit::segment {

namespace {

namespace fs = std::filesystem;

class Evaluation : public apps::PictureEvaluation<RunRecord, data::SegmentationDataset> {
 public:
  explicit Evaluation(const EvalOptions& options) : PictureEvaluation(options), options_(options) {}

 private:
  void open_data() override {
    config_ = options_.views.of(config_);
    predictor_ = predictor_of(*loaded_.model, config_);
    data_ = segment::open_data(config_, options_.split, options_.first);
    if (data_->size() == 0) fail("eval", fmt::format("the {} split is empty", choice_name(data_->split())));
    apps::check_classes(data_->classes(), config_.classes);
    results_ = measured_on(config_.dtype, options_.limit);
    results_.data = describe_data(config_, data_->split());
    results_.fingerprint = data::fingerprint(*data_, config_.data);
    results_.views = describe(predictor_.views);
    if (options_.split != data::Split::test)
      results_.options += fmt::format(" --split {}", choice_name(options_.split));
    results_.options += options_.views.arguments();
  }

  std::string data_line() const override {
    return fmt::format("{}: {} pictures, {} classes; {}", results_.data, data_->size(),
                       config_.classes.size(), results_.views);
  }

  std::optional<Scores> score(const apps::PictureChange& change, const apps::Tick& tick) override {
    const Totals found = evaluate(predictor_, *data_, {.change = change, .tick = tick});
    if (!found.complete) return std::nullopt;
    return scores_of(found.confusion);
  }

  bool clean() override {
    apps::Progress bar("clean", 0, data_->size(), {.quiet = options_.quiet});
    EvaluateOptions with{.tick = apps::ticker(bar, 0, "")};
    std::set<std::string> taken;
    if (!options_.save_predictions.empty()) {
      fs::create_directories(options_.save_predictions);
      with.seen = [&](int64_t i, const data::SegmentationSample&, const data::Image& classes) {
        const std::string stem = fs::path(data_->name(i)).stem().string();
        if (!taken.insert(stem).second)
          fail("eval", "--save-predictions: two pictures are called " + stem + "; predict them one by one");
        data::write_png((fs::path(options_.save_predictions) / (stem + ".png")).string(), classes);
      };
    }
    const Totals found = evaluate(predictor_, *data_, with);
    if (!found.complete) return false;
    results_.set_scores(found.confusion, found.count, config_.classes);
    keep(results_);
    return true;
  }

  nlohmann::ordered_json json() const override {
    nlohmann::ordered_json json = to_json(results_);
    for (const int s : severities_)
      if (const auto mean = mean_corrupted(results_.corrupted, s))
        json["mean_corrupted"].push_back({{"severity", s},
                                          {"pixel_accuracy", mean->pixel_accuracy},
                                          {"mean_accuracy", mean->mean_accuracy},
                                          {"mean_iou", mean->mean_iou}});
    return json;
  }

  void print() const override {
    const Scores& s = results_.scores;
    apps::print("{}, {}: pixel accuracy {} %, mean accuracy {} %, mIoU {} % on {} pictures\n\n{}",
                results_.data, results_.views, percent(s.pixel_accuracy), percent(s.mean_accuracy),
                percent(s.mean_iou), results_.count, apps::Lines{apps::to_text(class_table(results_))});
    if (!results_.corrupted.empty())
      apps::print("\nmIoU under corruption, %\n{}", apps::Lines{apps::to_text(corruption_table(results_))});
  }

  const EvalOptions& options_;
  Predictor predictor_;
};

}  // namespace

int eval(const EvalOptions& options) { return Evaluation(options).run(); }

}  // namespace pursuit::segment
