#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <set>

#include "apps/command/checks.h"
#include "apps/pictures/attack_options.h"
#include "apps/segment/attack.h"
#include "apps/segment/commands.h"
#include "apps/segment/pipeline.h"
#include "apps/segment/results.h"
#include "apps/training/step_memory.h"
#include "data/fingerprint.h"
#include "engine/base/error.h"

// `segment eval` writes its results to stdout and, for a run's folder, to eval.json (see results.h):
//   {"evaluations": [{"data", "fingerprint", "count", "weights", "step", "dtype", "options",
//                     "made_by", "run", "seed", "frost", "views",
//                     "scores": {"pixel_accuracy", "mean_accuracy", "mean_iou"},
//                     "classes": [{"name", "iou", "accuracy", "pixels"}],
//                     "corrupted": [{"name", "severity", "count", "scores"}],
//                     "attacked": [{"attack", "budget", "settings", "arguments", "scores"}]}]}
// An entry holds the results of one set of pictures and conditions; the newest is last. Scores are in [0, 1],
// -1 if no pixel was counted.
namespace pursuit::segment {

namespace {

namespace fs = std::filesystem;

class Evaluation : public apps::PictureEvaluation<RunRecord, data::SegmentationDataset> {
 public:
  explicit Evaluation(const EvalOptions& options)
      : PictureEvaluation(options),
        options_(options),
        attacks_(apps::chosen("--attack", options.attacks, attack_names())) {
    if (options.severities.empty()) severities_ = {1};
  }

 private:
  std::vector<data::CorruptedPart> parts() const override {
    return data::SegmentationFormats::parts("eval", config_.data, config_.format);
  }

  std::unique_ptr<data::SegmentationDataset> opened(const data::CorruptedPart& part) const override {
    return segment::open_data(config_, options_.split, options_.first, part);
  }

  void open_data() override {
    config_ = options_.views.of(config_);
    predictor_ = predictor_of(*loaded_.model, config_);
    predictor_.lower = "--batch-size, or the picture's size with --short-side";
    data_ = first_part();
    if (data_->size() == 0) fail("eval", fmt::format("the {} split is empty", choice_name(data_->split())));
    for (const auto& [option, given] : {std::pair{"--attack", !attacks_.empty()},
                                        {"--save-predictions", !options_.save_predictions.empty()}})
      if (given && published_corrupted())
        fail("eval",
             fmt::format("{} needs clean pictures, but those of {} are corrupted", option, config_.data));
    if (!attacks_.empty() && (config_.scales.size() > 1 || config_.eval_flip))
      fail("eval", "--attack changes one view of a picture: evaluate with one of --scales, and --no-flip");
    if (!attacks_.empty() && config_.dtype != DType::f32)
      fail("eval", "--attack needs --dtype f32: a budget of 1/255 is below the precision of bf16");
    apps::refuse_unused(options_.attack_options, {attacks_.begin(), attacks_.end()});
    apps::check_classes(data_->classes(), config_.classes);
    results_ = conditions_on(*data_, options_.limit);
  }

  Results conditions_on(const data::SegmentationDataset& data, int64_t looked_at) const {
    Results r = measured_on(config_.dtype, looked_at);
    r.data = describe_data(config_, data.split());
    r.fingerprint = data::fingerprint(data, config_.data);
    r.views = describe(predictor_.views);
    if (options_.split != data::Split::test)
      r.options += fmt::format(" --split {}", choice_name(options_.split));
    r.options += options_.views.arguments();
    return r;
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

  bool more() override {
    if (attacks_.empty()) return true;
    const std::set<double> budgets(options_.budgets.begin(), options_.budgets.end());
    std::unique_ptr<data::SegmentationDataset> fewer;
    if (options_.attack_limit > 0 && options_.attack_limit < data_->size()) {
      Config config = config_;
      config.limit = config.test_limit = options_.attack_limit;
      fewer = segment::open_data(config, options_.split, options_.first);
    }
    const data::SegmentationDataset& data = fewer ? *fewer : *data_;
    const int64_t runs = int64_t(attacks_.size() * budgets.size()) + (fewer ? 1 : 0);
    apps::Progress bar("attacks", 0, runs * data.size(), {.quiet = options_.quiet});
    int64_t before = 0;
    if (fewer) {
      // The clean scores are measured on the same pictures.
      attacked_on_ = conditions_on(data, options_.attack_limit);
      const Totals found = evaluate(predictor_, data, {.tick = apps::ticker(bar, 0, "clean")});
      if (!found.complete) return false;
      attacked_on_->set_scores(found.confusion, found.count, config_.classes);
      before += data.size();
    }
    for (const std::string& name : attacks_)
      for (const double budget : budgets) {
        attacks::Settings s;
        s.name = name;
        s.budget = budget;
        s.pixel = true;
        s.mean = config_.mean;
        s.std = config_.std;
        if (const auto given = options_.attack_options.find(name); given != options_.attack_options.end())
          s.options = given->second;
        s.seed = options_.seed;
        const auto attack = [&](const Tensor& view, const data::SegmentationSample& sample) {
          require_memory(view);
          return segment::attacked(predictor_, view, sample.labels, s, sample.index);
        };
        const auto tick = apps::ticker(bar, before, fmt::format("{} {:g}/255", name, budget));
        const Totals found = evaluate(predictor_, data, {.attack = attack, .tick = tick});
        if (!found.complete) return false;
        before += data.size();
        attacked().attacked.push_back(
            {name, budget, s.describe(), scores_of(found.confusion), s.arguments()});
        keep(attacked());
      }
    return true;
  }

  nlohmann::ordered_json json() const override {
    nlohmann::ordered_json json = to_json(results_);
    if (attacked_on_) json["attacked"] = to_json(*attacked_on_)["attacked"];
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
    if (!published_corrupted())
      apps::print("{}, {}: pixel accuracy {} %, mean accuracy {} %, mIoU {} % on {} pictures\n\n{}",
                  results_.data, results_.views, percent(s.pixel_accuracy), percent(s.mean_accuracy),
                  percent(s.mean_iou), results_.count, apps::Lines{apps::to_text(class_table(results_))});
    if (!results_.corrupted.empty())
      apps::print("\nmIoU under corruption, %\n{}", apps::Lines{apps::to_text(corruption_table(results_))});
    if (!attacked().attacked.empty())
      apps::print("\nunder attacks on pixels, clipped to [0, 1], away from the labels, % on {} pictures\n{}",
                  attacked().count, apps::Lines{apps::to_text(attack_table(attacked()))});
  }

  void require_memory(const Tensor& view) {
    if (view.shape() == fits_) return;
    apps::require_memory("eval", view.device(),
                         "the picture's size with --short-side, as an attack keeps all windows",
                         [&] { attack_on_shapes(predictor_, view.shape()); });
    fits_ = view.shape();
  }

  Results& attacked() { return attacked_on_ ? *attacked_on_ : results_; }
  const Results& attacked() const { return attacked_on_ ? *attacked_on_ : results_; }

  const EvalOptions& options_;
  std::vector<std::string> attacks_;
  Predictor predictor_;
  Shape fits_;                          // of a view, whose attack was found to fit into memory
  std::optional<Results> attacked_on_;  // of --attack-limit pictures, with clean scores
};

}  // namespace

const std::vector<std::string>& attack_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list = attacks::names();
    std::erase_if(list, [](const std::string& name) {
      const attacks::AttackTraits& traits = attacks::info_of(name).traits;
      return !traits.labels_of_pixels || traits.norm != attacks::Norm::linf;
    });
    return list;
  }();
  return names;
}

int eval(const EvalOptions& options) { return Evaluation(options).run(); }

}  // namespace pursuit::segment
