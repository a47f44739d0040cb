#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "apps/command/checks.h"
#include "apps/pictures/picture_files.h"
#include "apps/segment/commands.h"
#include "apps/segment/pipeline.h"
#include "apps/segment/results.h"
#include "apps/terminal/print.h"
#include "apps/training/provenance.h"
#include "apps/training/step_memory.h"
#include "data/fingerprint.h"

namespace pursuit::segment {

namespace {

// Fills in what the data decides; a resumed run's data must still have the run's classes.
Config with_data(Config config, const data::SegmentationDataset& train) {
  if (config.classes.empty())
    complete(config, train);
  else if (config.classes != train.classes())
    fail("train", "the data has other classes than the run was started with");
  return config;
}

// Throws Error unless it can be trained with these pictures.
const Config& checked(const Config& config, const data::SegmentationDataset& train,
                      const data::SegmentationDataset& validation) {
  apps::check_classes(validation.classes(), config.classes);
  if (validation.size() == 0) fail("train", "the " + config.validation + " split is empty");
  const data::Image first = validation.get(0).image;
  apps::require_memory("train", device_from_name(config.device),
                       "--batch-size, --eval-batch-size, --height, --width, --dim or --depth",
                       [&] { train_on_shapes(config, first.height, first.width); });
  apps::check_batch(train.size(), config.batch_size, config.ranks * config.accumulate);
  return config;
}

class Segmentation : public apps::TaskOf<Config> {
 public:
  Segmentation(const Config& config, const apps::RunOptions& options, distributed::Communicator& ranks)
      : ranks_(ranks),
        train_data_(open_data(config, "train")),
        config_(with_data(config, *train_data_)),
        validation_data_(open_data(config_, config_.validation)),
        validation_fingerprint_(data::fingerprint(*validation_data_, config_.data)),
        model_(model_config(checked(config_, *train_data_, *validation_data_))),
        share_(apps::share(config_, ranks.rank())),
        loader_(*train_data_, train_transform(config_), train_loader_options(config_, share_)) {
    config_.validation = validation_data_->split();
    config_.data_fingerprint = apps::same_data(
        config_.data_fingerprint, {data::fingerprint(*train_data_, config_.data), validation_fingerprint_},
        config_.data);
    nn::initialise(model_, config_.init, config_.seed);
    if (!config_.encoder.empty() && options.resume.empty()) load_encoder(model_, config_.encoder);
    const Device device = device_from_name(config_.device);
    model_.to(device);
    input_.emplace(config_, device);
  }

  nn::Module& model() override { return model_; }

  std::vector<std::string> head() const override {
    return {
        fmt::format("data   {}: {} training and {} {} pictures, {} classes",
                    config_.data.empty() ? "built-in scenes" : config_.data, train_data_->size(),
                    validation_data_->size(), config_.validation, config_.classes.size()),
        fmt::format("model  {}, width {}, {} blocks, {} heads, patch {}, input {} x {}, {} decoder: {:.2f} "
                    "M parameters",
                    describe_attention(config_), config_.dim, config_.depth, config_.heads, config_.patch,
                    config_.width, config_.height, choice_name(config_.decoder),
                    double(model_.parameter_count()) / 1e6)};
  }

  int64_t steps_per_epoch() const override { return loader_.steps_per_epoch(); }
  void start_epoch(int64_t epoch, int64_t step) override { loader_.start_step(epoch, step); }

  nn::SentBatch next_batch(int64_t step, int64_t batch) override {
    loader_.next(batch_);
    input_->images.send(batch_.images.data());
    input_->labels.send(batch_.labels.data());
    model_.set_step(config_.seed, uint64_t(step), uint64_t(share_.first + batch));
    const int64_t void_pixels = std::count(batch_.labels.begin(), batch_.labels.end(), data::kIgnoredLabel);
    return {batch_.size, 1 - double(void_pixels) / double(batch_.labels.size())};
  }

  nn::Loss loss() override { return segment::loss(model_, config_, *input_); }

  apps::Evaluation evaluate() override {
    const Predictor predictor = predictor_of(model_, config_);
    EvaluationHooks mine;
    mine.share = apps::share_of_evaluation(ranks_);
    Evaluated found = segment::evaluate(predictor, *validation_data_, mine);
    std::vector<int64_t> counts = found.matrix.counts();
    counts.push_back(found.count);
    apps::add_up(ranks_, counts);
    found.count = counts.back();
    counts.pop_back();
    found.matrix.set_counts(std::move(counts));
    results_ = Results();
    static_cast<apps::Conditions&>(results_) =
        apps::conditions(config_, apps::evaluated_weights(config_), 0, "");
    results_.data = describe_data(config_, config_.validation);
    results_.views = describe(predictor.views);
    results_.options = "--split " + config_.validation;
    if (config_.test_limit > 0) results_.options += fmt::format(" --limit {}", config_.test_limit);
    results_.fingerprint = validation_fingerprint_;
    results_.set_scores(found.matrix, found.count, config_.classes);
    const Scores& s = results_.scores;
    apps::Evaluation e;
    e.complete = found.complete;
    e.metrics = {{"pixel_accuracy", "val/pixel_accuracy", s.pixel_accuracy},
                 {"mean_accuracy", "val/mean_accuracy", s.mean_accuracy},
                 {"mean_iou", "val/mean_iou", s.mean_iou}};
    e.text = fmt::format("{} pixel accuracy {} %  mIoU {} %", config_.validation, percent(s.pixel_accuracy),
                         percent(s.mean_iou));
    e.score = s.mean_iou;
    return e;
  }

  void finish(const std::string& folder, int64_t step) override {
    results_.run = apps::run_id(folder);
    results_.step = step;
    apps::add_evaluation(folder, results_);
    write_report(folder);
    apps::note_replaced("training", *train_data_);
    apps::note_replaced("validation", *validation_data_);
    apps::print("{}: pixel accuracy {} %, mean accuracy {} %, mIoU {} % on {} pictures after {} steps\n",
                results_.data, percent(results_.scores.pixel_accuracy),
                percent(results_.scores.mean_accuracy), percent(results_.scores.mean_iou), results_.count,
                step);
    apps::print("report {}\n", (std::filesystem::path(folder) / "report.html").string());
  }

 private:
  const Config& settings() const override { return config_; }

  distributed::Communicator& ranks_;
  std::unique_ptr<data::SegmentationDataset> train_data_;
  Config config_;
  std::unique_ptr<data::SegmentationDataset> validation_data_;
  std::string validation_fingerprint_;
  nn::Segmenter model_;
  data::Share share_;
  data::Loader loader_;
  data::Batch batch_;
  std::optional<StepInput> input_;
  Results results_;  // of the last evaluation
};

}  // namespace

int train(const Config& config, const apps::RunOptions& options, distributed::Communicator& ranks) {
  return apps::train<Segmentation>(config, options, ranks);
}

}  // namespace pursuit::segment
