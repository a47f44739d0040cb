#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "apps/command/checks.h"
#include "apps/pictures/picture_files.h"
#include "apps/segment/commands.h"
#include "apps/segment/pipeline.h"
#include "apps/segment/results.h"
#include "apps/study/run_task.h"
#include "apps/training/checkpoint.h"
#include "apps/training/step_memory.h"
#include "data/fingerprint.h"

namespace pursuit::segment {

namespace {

// Fills in the fields that depend on the data. Throws Error if the classes of a resumed run have changed.
Config with_data(Config config, const data::SegmentationDataset& train) {
  if (config.classes.empty())
    complete(config, train);
  else if (config.classes != train.classes())
    fail("train", "the data has other classes than the run was started with");
  return config;
}

// What to lower if memory is too small. An encoder sets width and depth.
std::string lower(const Config& config, bool resumed) {
  if (resumed) return apps::lower_in_resumed;
  return fmt::format(
      "--batch-size, --eval-batch-size, --height, --width{} or, by --short-side, evaluated pictures",
      config.encoder.empty() ? ", --dim, --depth" : "");
}

// Returns the config. Throws Error if classes, memory or the number of pictures do not suffice.
const Config& checked(const Config& config, bool resumed, const data::SegmentationDataset& train,
                      const data::SegmentationDataset& validation) {
  apps::check_classes(validation.classes(), config.classes);
  if (validation.size() == 0)
    fail("train", fmt::format("the {} split is empty", choice_name(config.validation)));
  const data::Image first = validation.get(0).image;
  apps::require_memory("train", device_from_name(config.device), lower(config, resumed),
                       [&] { train_on_shapes(config, first.height, first.width); });
  apps::check_batch(train.size(), config.batch_size, config.ranks * config.accumulate);
  return config;
}

class Segmentation : public apps::TaskOf<RunRecord> {
 public:
  Segmentation(const Config& config, const apps::RunOptions& options, distributed::Communicator& ranks)
      : ranks_(ranks),
        train_data_(open_data(config, data::Split::train)),
        config_(with_data(config, *train_data_)),
        validation_data_(open_data(config_, config_.validation)),
        validation_fingerprint_(data::fingerprint(*validation_data_, config_.data)),
        resumed_(!options.resume.empty()),
        model_(model_config(checked(config_, resumed_, *train_data_, *validation_data_))),
        share_(apps::share(config_, ranks.rank())),
        loader_(*train_data_, train_transform(config_), train_loader_options(config_, share_)) {
    config_.validation = validation_data_->split();
    config_.data_fingerprint = apps::same_data(
        config_.data_fingerprint, {data::fingerprint(*train_data_, config_.data), validation_fingerprint_},
        config_.data);
    nn::initialise(model_, config_.init, config_.seed);
    // A resumed run without a checkpoint begins again at step 0.
    if (!config_.encoder.empty() && (options.resume.empty() || !apps::holds_run(options.resume)))
      load_encoder(model_, config_.encoder);
    const Device device = device_from_name(config_.device);
    model_.to(device);
    input_.emplace(config_, device);
  }

  nn::Module& model() override { return model_; }

  std::vector<std::string> head() const override {
    return {
        fmt::format("data   {}: {} training and {} {} pictures, {} classes",
                    config_.data.empty() ? "built-in scenes" : config_.data, train_data_->size(),
                    validation_data_->size(), choice_name(config_.validation), config_.classes.size()),
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

  double waited_for_data() const override { return loader_.waited(); }

  nn::Loss loss() override { return segment::loss(model_, config_, *input_); }

  apps::Validation evaluate() override {
    EvaluateOptions mine;
    mine.share = apps::share_of_evaluation(ranks_);
    Predictor predictor = predictor_of(model_, config_);
    predictor.lower =
        resumed_ ? apps::lower_in_resumed : "--eval-batch-size, or the picture's size with --short-side";
    totals_ = segment::evaluate(predictor, *validation_data_, mine);
    std::vector<int64_t> counts = totals_->confusion.counts();
    counts.push_back(totals_->count);
    apps::add_up(ranks_, counts);
    totals_->count = counts.back();
    counts.pop_back();
    totals_->confusion.set_counts(std::move(counts));
    const Scores s = scores_of(totals_->confusion);
    apps::Validation v;
    v.complete = totals_->complete;
    if (s.mean_iou >= 0)  // else no pixel was counted
      v.metrics = {{"pixel_accuracy", "val/pixel_accuracy", s.pixel_accuracy},
                   {"mean_accuracy", "val/mean_accuracy", s.mean_accuracy},
                   {"mean_iou", "val/mean_iou", s.mean_iou}};
    v.text = fmt::format("{} pixel accuracy {} %  mIoU {} %", choice_name(config_.validation),
                         percent(s.pixel_accuracy), percent(s.mean_iou));
    v.score = s.mean_iou;
    return v;
  }

  void show(nn::AttentionInspection& inspection) override {
    show_pictures(model_, config_, *validation_data_, 2, inspection);
  }

  void finish(const std::string& folder, int64_t step) override {
    TaskOf::finish(folder, step);
    apps::note_replaced("training", *train_data_);
    apps::note_replaced("validation", *validation_data_);
  }

 private:
  const Config& settings() const override { return config_; }
  void fill(Results& results) const override {
    results.data = describe_data(config_, config_.validation);
    results.views = describe(views_of(config_));
    results.options = fmt::format("--split {}", choice_name(config_.validation));
    if (config_.test_limit > 0) results.options += fmt::format(" --limit {}", config_.test_limit);
    results.fingerprint = validation_fingerprint_;
    results.set_scores(totals_->confusion, totals_->count, config_.classes);
  }
  std::string summary(int64_t step) const override {
    const Scores s = scores_of(totals_->confusion);
    return fmt::format("{}: pixel accuracy {} %, mean accuracy {} %, mIoU {} % on {} pictures after {} steps",
                       describe_data(config_, config_.validation), percent(s.pixel_accuracy),
                       percent(s.mean_accuracy), percent(s.mean_iou), totals_->count, step);
  }

  distributed::Communicator& ranks_;
  std::unique_ptr<data::SegmentationDataset> train_data_;
  Config config_;
  std::unique_ptr<data::SegmentationDataset> validation_data_;
  std::string validation_fingerprint_;
  bool resumed_;
  nn::Segmenter model_;
  data::Share share_;
  data::Loader loader_;
  data::Batch batch_;
  std::optional<StepInput> input_;
  std::optional<Totals> totals_;  // of the last evaluation
};

}  // namespace

int train(const Config& config, const apps::RunOptions& options, distributed::Communicator& ranks) {
  return apps::train<Segmentation>(config, options, ranks);
}

}  // namespace pursuit::segment
