#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "apps/common/checks.h"
#include "apps/common/choice.h"
#include "apps/common/frost.h"
#include "apps/common/json.h"
#include "apps/common/print.h"
#include "apps/common/progress.h"
#include "apps/common/signals.h"
#include "apps/segment/commands.h"
#include "apps/segment/evaluation.h"
#include "apps/segment/pipeline.h"
#include "apps/segment/results.h"
#include "apps/segment/run.h"
#include "apps/training/kept_results.h"
#include "apps/training/provenance.h"
#include "apps/training/report_parts.h"
#include "data/corruptions.h"
#include "data/fingerprint.h"
#include "engine/core/error.h"

// `segment eval`. Its results go to stdout and, for a run's folder, to eval.json (see results.h):
//   {"evaluations": [{"data", "fingerprint", "count", "weights", "step", "dtype", "options", "made_by",
//   "views",
//                     "seed", "frost",
//                     "scores": {"pixel_accuracy", "mean_accuracy", "mean_iou"},
//                     "classes": [{"name", "iou", "accuracy", "pixels"}],
//                     "corrupted": [{"name", "severity", "count", "scores"}]}]}
// an entry for everything that was measured alike, the one written last at the end. Scores are in [0, 1], -1
// where no pixel was counted.
namespace pursuit::segment {

namespace {

namespace fs = std::filesystem;

// What an evaluation was asked for, as far as its results depend on it and nothing else of them says it.
std::string arguments(const EvalOptions& o) {
  std::string text;
  const auto add = [&](bool given, const std::string& argument) {
    if (given) text += (text.empty() ? "" : " ") + argument;
  };
  add(!o.data.empty(), "--data " + apps::quoted(o.data));
  add(!o.format.empty(), "--format " + o.format);
  add(o.split != "test", "--split " + o.split);
  add(o.first > 0, fmt::format("--first {}", o.first));
  add(o.limit > 0, fmt::format("--limit {}", o.limit));
  add(o.short_side >= 0, fmt::format("--short-side {}", o.short_side));
  add(o.long_side >= 0, fmt::format("--long-side {}", o.long_side));
  add(o.stride.has_value(), fmt::format("--stride {}", o.stride.value_or(0)));
  add(!o.scales.empty(), fmt::format("--scales {}", fmt::join(o.scales, ",")));
  add(o.flip.has_value(), o.flip.value_or(false) ? "--flip" : "--no-flip");
  add(!o.load.weights.empty(), "--weights " + o.load.weights);
  add(o.load.dtype.has_value(), fmt::format("--dtype {}", name_of(o.load.dtype.value_or(DType::f32))));
  add(o.seed > 0, fmt::format("--seed {}", o.seed));
  add(!o.frost.empty(), "--frost " + apps::quoted(o.frost));
  return text;
}

class Evaluation {
 public:
  explicit Evaluation(const EvalOptions& options) : options_(options), kept_(options.checkpoint) {}

  int run() {
    open();
    apps::catch_stop_signals();
    const bool done = clean() && corruptions();
    if (done || results_.count > 0) print();
    if (data_->skipped() > 0) apps::note("{} damaged pictures were left out\n", data_->skipped());
    return kept_.finish(done, results_.count > 0, write_report);
  }

 private:
  void open() {
    corruptions_ = apps::chosen("--corruptions", options_.corruptions, data::corruption_names());
    severities_ = {options_.severities.begin(), options_.severities.end()};
    results_.run =
        apps::run_id(options_.checkpoint);  // before the weights, which another training may replace
    loaded_ = load_model(options_.checkpoint, options_.load);
    predictor_ = predictor_of(loaded_, options_);
    Config& config = loaded_.config;
    config.limit = config.test_limit = options_.limit;
    config.skip_bad = config.skip_bad || options_.skip_bad;
    if (!options_.data.empty()) {
      config.data = options_.data;
      config.format = "auto";
    }
    if (!options_.format.empty()) config.format = options_.format;
    data_ = open_data(config, options_.split, options_.first);
    if (data_->size() == 0) fail("eval", "the " + data_->split() + " split is empty");
    apps::check_classes(data_->classes(), config.classes);
    frost_ = apps::frost_overlays(options_.frost, corruptions_);

    results_.data = describe_data(config, data_->split());
    results_.views = describe(predictor_.views);
    results_.options = arguments(options_);
    results_.fingerprint = data::fingerprint(*data_, config.data);
    results_.weights = loaded_.weights;
    results_.step = loaded_.state.step;
    results_.dtype = name_of(config.dtype);
    results_.made_by = apps::provenance(config.device);
    results_.seed = options_.seed;
    if (!options_.frost.empty()) results_.frost = apps::last_name(options_.frost);
    if (options_.quiet) return;
    apps::note("pursuit {} on {}, {}\n", PURSUIT_VERSION, pursuit::describe(predictor_.device),
               name_of(config.dtype));
    apps::note("model  {}: {}, step {}{}\n", loaded_.name, describe_attention(config), loaded_.state.step,
               loaded_.weights == "ema" ? ", averaged weights" : "");
    apps::note("data   {}: {} pictures, {} classes; {}\n", results_.data, data_->size(),
               config.classes.size(), results_.views);
  }

  void save() {
    kept_.add([&](const std::string& folder) { merge_results(folder, results_); });
  }

  bool clean() {
    apps::Progress bar("clean", 0, data_->size(), {.quiet = options_.quiet});
    EvaluationHooks hooks{.tick = [&](int64_t done) { bar.update(done, 1, ""); }};
    std::set<std::string> taken;
    if (!options_.save_predictions.empty()) {
      fs::create_directories(options_.save_predictions);
      hooks.seen = [&](int64_t i, const data::SegmentationSample&, const data::Image& classes) {
        const std::string stem = fs::path(data_->name(i)).stem().string();
        if (!taken.insert(stem).second)
          fail("eval", "--save-predictions: two pictures are called " + stem + "; predict them one by one");
        data::write_png((fs::path(options_.save_predictions) / (stem + ".png")).string(), classes);
      };
    }
    const Evaluated found = evaluate(predictor_, *data_, hooks);
    if (!found.complete) return false;
    results_.set_scores(found.matrix, found.count, loaded_.config.classes);
    save();
    return true;
  }

  bool corruptions() {
    const int64_t each = data_->size(), views = int64_t(corruptions_.size() * severities_.size());
    if (views == 0) return true;
    apps::Progress bar("corruptions", 0, views * each, {.quiet = options_.quiet});
    int64_t before = 0;
    for (const std::string& name : corruptions_) {
      for (const int severity : severities_) {
        const std::string note = fmt::format("{} {}", name, severity);
        const EvaluationHooks hooks{
            .change =
                [&](const data::Image& image, int64_t index) {
                  return data::corrupt(image, name, severity,
                                       data::corruption_seed(options_.seed, name, severity, index), frost_);
                },
            .tick = [&](int64_t done) { bar.update(before + done, 1, note); }};
        const Evaluated found = evaluate(predictor_, *data_, hooks);
        if (!found.complete) return false;
        before += each;
        results_.corrupted.push_back({name, severity, scores_of(found.matrix)});
        save();
      }
    }
    return true;
  }

  void print() const {
    if (options_.json) {
      nlohmann::ordered_json json = to_json(results_);
      for (const int s : severities_)
        if (const auto mean = mean_corrupted(results_.corrupted, s))
          json["mean_corrupted"].push_back({{"severity", s},
                                            {"pixel_accuracy", mean->pixel_accuracy},
                                            {"mean_accuracy", mean->mean_accuracy},
                                            {"mean_iou", mean->mean_iou}});
      apps::print("{}\n", json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
      return;
    }
    if (results_.count == 0) return;
    apps::print("{}, {}: pixel accuracy {} %, mean accuracy {} %, mIoU {} % on {} pictures\n\n{}",
                results_.data, results_.views, percent(results_.scores.pixel_accuracy),
                percent(results_.scores.mean_accuracy), percent(results_.scores.mean_iou), results_.count,
                apps::Lines{apps::to_text(class_table(results_))});
    if (!results_.corrupted.empty())
      apps::print("\nmIoU under corruption, %\n{}", apps::Lines{apps::to_text(corruption_table(results_))});
  }

  const EvalOptions& options_;
  apps::KeptResults kept_;
  std::vector<std::string> corruptions_;
  std::set<int> severities_;
  LoadedModel loaded_;
  Predictor predictor_;
  std::unique_ptr<data::SegmentationDataset> data_;
  std::vector<data::Image> frost_;
  Results results_;
};

}  // namespace

int eval(const EvalOptions& options) { return Evaluation(options).run(); }

}  // namespace pursuit::segment
