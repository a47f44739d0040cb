#include <fmt/format.h>

#include <optional>
#include <utility>

#include "apps/classify/commands.h"
#include "apps/classify/pipeline.h"
#include "apps/classify/results.h"
#include "apps/command/checks.h"
#include "apps/pictures/picture_files.h"
#include "apps/study/run_task.h"
#include "apps/terminal/signals.h"
#include "apps/training/step_memory.h"
#include "data/fingerprint.h"
#include "data/mixup.h"
#include "engine/base/streams.h"

namespace pursuit::classify {

namespace {

// Opens the training data and fills in the fields of the config that depend on it. Throws Error if the classes
// of a resumed run have changed.
std::unique_ptr<data::Dataset> open_training_data(Config& config) {
  const bool resumed = !config.classes.empty();
  auto train = open_data(config, data::Split::train);
  if (!resumed) {
    const bool has_size = config.image_size > 0;
    complete(config, *train);
    if (!has_size)
      train = open_data(config, data::Split::train);  // reduces large pictures, as a resumed run does
  } else if (config.classes != train->classes()) {
    fail("train", "the data has other classes than the run was started with");
  }
  apps::require_memory("train", device_from_name(config.device),
                       resumed           ? apps::lower_in_resumed
                       : attends(config) ? "--batch-size, --eval-batch-size, --image-size, --dim or --depth"
                                         : "--batch-size, --eval-batch-size, --image-size or --width",
                       [&] { train_on_shapes(config); });
  apps::check_batch(train->size(), config.batch_size, config.ranks * config.accumulate);
  return train;
}

// Sums the totals over the ranks, each of which evaluated a part of the pictures.
void add_up(distributed::Communicator& ranks, Totals& totals) {
  std::vector<int64_t> counts = totals.confusion.counts();
  for (nn::Calibration::Bin& bin : totals.calibration.bins) {
    counts.insert(counts.end(), {bin.count, bin.correct});
    bin.confidence = apps::reduced(ranks, bin.confidence, distributed::Reduction::sum);
  }
  counts.push_back(totals.top5);
  double loss = totals.loss * double(totals.count());
  apps::add_up(ranks, counts);
  loss = apps::reduced(ranks, loss, distributed::Reduction::sum);
  totals.top5 = counts.back();
  counts.pop_back();
  for (auto bin = totals.calibration.bins.rbegin(); bin != totals.calibration.bins.rend(); ++bin) {
    bin->correct = counts.back(), counts.pop_back();
    bin->count = counts.back(), counts.pop_back();
  }
  totals.confusion.set_counts(std::move(counts));
  if (totals.count() > 0) totals.loss = loss / double(totals.count());
}

class Classification : public apps::TaskOf<RunRecord> {
 public:
  Classification(const Config& config, const apps::RunOptions&, distributed::Communicator& ranks)
      : ranks_(ranks),
        config_(config),
        train_data_(open_training_data(config_)),
        test_data_(open_data(config_, evaluated_split(config_))),
        test_fingerprint_(data::fingerprint(*test_data_, config_.data)),
        tested_(test_data_->present_classes()),
        model_(model_config(config_)),
        share_(apps::share(config_, ranks.rank())),
        loader_(*train_data_, train_transform(config_), train_loader_options(config_, share_)),
        test_loader_(*test_data_, evaluation_transform(config_),
                     evaluation_loader_options(config_, apps::share_of_evaluation(ranks))),
        totals_(config_) {
    config_.test_split = split_name(*test_data_, evaluated_split(config_));
    config_.data_fingerprint =
        apps::same_data(config_.data_fingerprint,
                        {data::fingerprint(*train_data_, config_.data), test_fingerprint_}, config_.data);
    nn::initialise(model_, config_.init, config_.seed);
    const Device device = device_from_name(config_.device);
    model_.to(device);
    if (ranks.size() > 1) model_.synchronise(&ranks);  // batch norm
    input_.emplace(config_, device);
  }

  nn::Module& model() override { return model_; }

  std::vector<std::string> head() const override {
    const std::string left_out = tested_.size() == config_.classes.size()
                                     ? ""
                                     : fmt::format(" ({} of them tested on)", tested_.size());
    return {fmt::format("data   {}: {} training and {} {} pictures, {} classes{}, {}x{}x{}",
                        config_.data.empty() ? "built-in shapes" : config_.data, train_data_->size(),
                        test_data_->size(), config_.validation > 0 ? "validation" : "test",
                        config_.classes.size(), left_out, config_.channels, config_.image_size,
                        config_.image_size),
            fmt::format("model  {}: {:.2f} M parameters", describe_model(config_),
                        double(model_.parameter_count()) / 1e6)};
  }

  int64_t steps_per_epoch() const override { return loader_.steps_per_epoch(); }
  void start_epoch(int64_t epoch, int64_t step) override { loader_.start_step(epoch, step); }

  nn::SentBatch next_batch(int64_t step, int64_t batch) override {
    loader_.next(batch_);
    const int64_t in_step = share_.first + batch;
    input_->images.send(batch_.images.data());
    if (input_->erased) {
      std::vector<int32_t> boxes;
      for (const data::Box& b : batch_.erased) boxes.insert(boxes.end(), {b.x, b.y, b.width, b.height});
      input_->erased->send(boxes.data());
    }
    if (input_->mix) {
      Random random(config_.seed, streams::mixup.at(uint64_t(step * share_.of + in_step)));
      const std::vector<data::Mix> mixes =
          data::draw_mixes({.mixup_alpha = config_.mixup, .cutmix_alpha = config_.cutmix}, batch_.size,
                           int(config_.image_size), int(config_.image_size), random);
      input_->mix->send(data::mix_rows(batch_.size, mixes).data());
      input_->targets.send(
          data::mix_targets(batch_.labels, int64_t(config_.classes.size()), config_.label_smoothing, mixes)
              .data());
    } else {
      input_->targets.send(batch_.labels.data());
    }
    model_.set_step(config_.seed, uint64_t(step), uint64_t(in_step));
    if (input_->adversarial.defined())
      attack_batch(model_, config_, *input_, (step * share_.of + in_step) * batch_.size);
    return {batch_.size};
  }

  double waited_for_data() const override { return loader_.waited(); }

  nn::Loss loss() override { return classify::loss(model_, config_, *input_); }

  apps::Validation evaluate() override {
    const attacks::Logits logits = [&](const Tensor& images) { return restricted(model_(images), tested_); };
    totals_ = classify::evaluate(logits, config_, test_loader_);
    add_up(ranks_, totals_);
    require_read(totals_, test_data_->size());
    apps::Validation v;
    v.complete = !apps::stop_requested() || totals_.count() == test_data_->size();
    v.metrics = {{"test_loss", "test/loss", totals_.loss},
                 {"test_accuracy", "test/accuracy", totals_.accuracy()},
                 {"test_accuracy5", "test/accuracy5", totals_.accuracy5()}};
    v.text = fmt::format("{0} loss {1:.4f}  {0} accuracy {2:.2f} %", config_.test_split, totals_.loss,
                         100 * totals_.accuracy());
    v.score = totals_.accuracy();
    return v;
  }

  void show(nn::AttentionInspection& inspection) override {
    show_pictures(model_, config_, *test_data_, 8, inspection);
  }

  void finish(const std::string& folder, int64_t step) override {
    TaskOf::finish(folder, step);
    apps::note_replaced("training", *train_data_);
    apps::note_replaced("test", *test_data_);
  }

 private:
  const Config& settings() const override { return config_; }
  void fill(Results& results) const override {
    results.data = describe_data(config_);
    results.fingerprint = test_fingerprint_;
    if (config_.validation > 0) results.options = "--split val";
    if (config_.test_limit > 0) results.options += fmt::format(" --limit {}", config_.test_limit);
    results.set_scores(totals_, config_.classes, tested_);
  }
  std::string summary(int64_t step) const override {
    return fmt::format("{} accuracy {:.2f} %, top-5 {:.2f} %, loss {:.4f} on {} pictures after {} steps",
                       config_.test_split, 100 * totals_.accuracy(), 100 * totals_.accuracy5(), totals_.loss,
                       totals_.count(), step);
  }

  distributed::Communicator& ranks_;
  Config config_;
  std::unique_ptr<data::Dataset> train_data_, test_data_;
  std::string test_fingerprint_;
  std::vector<int64_t> tested_;  // classes that occur in the test data
  Model model_;
  data::Share share_;
  data::Loader loader_, test_loader_;
  data::Batch batch_;
  std::optional<StepInput> input_;
  Totals totals_;  // of the last evaluation
};

}  // namespace

int train(const Config& config, const apps::RunOptions& options, distributed::Communicator& ranks) {
  return apps::train<Classification>(config, options, ranks);
}

}  // namespace pursuit::classify
