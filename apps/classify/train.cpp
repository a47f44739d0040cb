#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <filesystem>
#include <thread>

#include "apps/classify/commands.h"
#include "apps/classify/pipeline.h"
#include "apps/classify/results.h"
#include "apps/classify/run.h"
#include "apps/classify/training_step.h"
#include "apps/common/files.h"
#include "apps/common/metrics.h"
#include "apps/common/progress.h"
#include "apps/common/signals.h"
#include "apps/common/tensorboard.h"
#include "engine/parallel.h"
#include "nn/schedule.h"

namespace pursuit::classify {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

constexpr int64_t log_every = 10;  // steps

struct StepUnderWay {
  int64_t number, epoch, batch, images;  // number and batch from 1
  double lr;
};

class Trainer {
 public:
  explicit Trainer(TrainOptions options)
      : options_(std::move(options)),
        config_(options_.config),
        folder_(options_.resume.empty() ? options_.out : options_.resume) {}

  int run() {
    prepare();
    const int64_t end = last_step();
    apps::Progress bar("train", progress_.step, end, {.quiet = options_.quiet});
    bar_ = &bar;
    loader_->start(progress_.epoch, progress_.batch);
    while (progress_.step < end && !apps::stop_requested()) {
      if (!loader_->next(batch_)) {
        next_epoch();
        continue;
      }
      ++progress_.batch;
      step();
      // An epoch that the last step completes is closed too, so that stopping there and going on are the
      // same.
      if (progress_.batch == loader_->batches_per_epoch()) next_epoch();
    }
    finish_steps(0);
    bar.finish();
    bar_ = nullptr;
    save();
    if (apps::stop_requested()) {
      fmt::print(stderr, "stopped at step {}; go on with: classify train --resume {}\n", progress_.step,
                 folder_);
      return 1;
    }
    finish();
    return 0;
  }

 private:
  void prepare() {
    validate(config_);
    set_num_threads(config_.threads > 0 ? config_.threads : int(std::thread::hardware_concurrency()));
    device_ = device_from_name(config_.device);
    const bool resuming = !options_.resume.empty();
    train_data_ = open_data(config_, data::Split::train);
    if (resuming && !config_.classes.empty()) {
      if (config_.classes != train_data_->classes())
        fail("train", "the data has other classes than the run " + folder_ + " was started with");
    } else {
      complete(config_, *train_data_);
    }
    test_data_ = open_data(config_, data::Split::test);
    model_ = std::make_unique<nn::VisionTransformer>(vit_config(config_));
    nn::initialise(*model_, config_.init == "timm" ? nn::Init::timm : nn::Init::pytorch, config_.seed);
    model_->to(device_);
    flat_ = std::make_unique<nn::FlatParameters>(model_->parameters(), nn::decays_by_timm,
                                                 dtype_from_name(config_.dtype));
    optimizer_ = std::make_unique<nn::Optimizer>(*flat_, optimizer_config(config_));
    if (config_.ema > 0) ema_ = std::make_unique<nn::Ema>(*flat_, config_.ema);
    loader_ =
        std::make_unique<data::Loader>(*train_data_, train_transform(config_), train_loader_options(config_));
    test_loader_ = std::make_unique<data::Loader>(*test_data_, evaluation_transform(config_),
                                                  evaluation_loader_options(config_));
    if (loader_->batches_per_epoch() == 0)
      fail("train", fmt::format("{} training pictures do not fill a batch of {}; use a smaller --batch-size",
                                train_data_->size(), config_.batch_size));

    open_folder(resuming);
    step_ =
        std::make_unique<TrainingStep>(config_, *model_, *flat_, *optimizer_, ema_.get(), !options_.no_graph);
    schedule_.kind = config_.schedule == "cosine"       ? nn::Schedule::Kind::cosine
                     : config_.schedule == "polynomial" ? nn::Schedule::Kind::polynomial
                                                        : nn::Schedule::Kind::constant;
    schedule_.lr = config_.lr;
    schedule_.min_lr = config_.min_lr;
    schedule_.warmup_lr = config_.warmup_lr;
    schedule_.warmup = config_.warmup_epochs;
    schedule_.total = double(config_.epochs);
    apps::catch_stop_signals();
    started_ = saved_ = Clock::now();
  }

  void open_folder(bool resuming) {
    const bool has_checkpoint = fs::exists(checkpoint_path(folder_));
    if (!resuming && has_checkpoint && !options_.overwrite)
      fail("train", folder_ + " already holds a run; go on with --resume " + folder_ +
                        ", choose another --out, or replace it with --overwrite");
    std::error_code error;
    fs::create_directories(folder_, error);
    if (error) fail("train", "cannot create " + folder_ + ": " + error.message());
    if (!resuming) {
      for (const char* old : {"checkpoint.safetensors", "eval.json", "report.html", "metrics.jsonl"})
        fs::remove(fs::path(folder_) / old, error);
      fs::remove_all(fs::path(folder_) / "tensorboard", error);
    } else if (has_checkpoint) {
      progress_ = load_checkpoint(folder_, *model_, *optimizer_, ema_.get());
      flat_->refresh();
    }
    apps::write_file_atomically((fs::path(folder_) / "config.json").string(),
                                to_json(config_).dump(2) + "\n");
    const std::optional<int64_t> from = resuming ? std::optional(progress_.step) : std::nullopt;
    metrics_ = std::make_unique<apps::MetricsWriter>((fs::path(folder_) / "metrics.jsonl").string(), from);
    events_ = std::make_unique<apps::TensorboardWriter>((fs::path(folder_) / "tensorboard").string(), from);
    if (!options_.quiet) print_head();
  }

  void print_head() {
    int64_t count = 0;
    for (const nn::NamedTensor& p : model_->parameters()) count += p.tensor->numel();
    fmt::print(stderr, "pursuit {} on {}, {}\n", PURSUIT_VERSION, describe(device_), config_.dtype);
    fmt::print(stderr, "data   {}: {} training and {} test pictures, {} classes, {}x{}x{}\n",
               config_.data.empty() ? "built-in shapes" : config_.data, train_data_->size(),
               test_data_->size(), config_.classes.size(), config_.channels, config_.image_size,
               config_.image_size);
    fmt::print(stderr, "model  {} attention, width {}, {} blocks, {} heads, patch {}: {:.2f} M parameters\n",
               config_.attention, config_.dim, config_.depth, config_.heads, config_.patch,
               double(count) / 1e6);
    fmt::print(stderr, "run    {}{}\n", folder_,
               progress_.step ? fmt::format(", going on at step {}", progress_.step) : std::string());
  }

  int64_t last_step() const {
    const int64_t all = config_.epochs * loader_->batches_per_epoch();
    return config_.steps > 0 ? std::min(config_.steps, all) : all;
  }

  double learning_rate() const {
    const double per_epoch = double(loader_->batches_per_epoch());
    // By epochs, an epoch runs at the value of the one before: the published schedule is moved after each
    // epoch.
    if (config_.lr_step == "epoch") return schedule_.at(double(std::max<int64_t>(0, progress_.epoch - 1)));
    return schedule_.at(double(progress_.step) / per_epoch);
  }

  // Starts a step. On a GPU its loss is looked at when the next one has been started, so that the GPU always
  // has work.
  void step() {
    const double lr = learning_rate();
    step_->start(batch_, progress_.step, lr);
    ++progress_.step;
    under_way_.push_back({progress_.step, progress_.epoch, progress_.batch, batch_.size, lr});
    finish_steps(device_.is_cuda() ? 1 : 0);
    const bool due = config_.checkpoint_steps > 0 && progress_.step % config_.checkpoint_steps == 0;
    if (due || seconds_since(saved_) >= config_.checkpoint_seconds) save();
  }

  void finish_steps(size_t left_under_way) {
    for (; under_way_.size() > left_under_way; under_way_.pop_front()) {
      const StepUnderWay& s = under_way_.front();
      const double loss = step_->loss(s.number - 1);
      if (!std::isfinite(loss))
        fail("train",
             fmt::format("the loss is {} at step {}; the checkpoint of an earlier step is kept. Use a lower "
                         "--lr or --clip-norm",
                         loss, s.number - 1));
      if (s.batch == 1) progress_.loss_sum = progress_.loss_count = 0;
      progress_.loss_sum += loss;
      ++progress_.loss_count;
      report(s, loss);
    }
  }

  void report(const StepUnderWay& s, double loss) {
    bar_->update(s.number, s.images, fmt::format("loss {:.3f}", loss));
    images_ += s.images;
    if (s.number % log_every != 0) return;
    const double rate = double(images_) / std::max(1e-9, seconds_since(logged_));
    metrics_->write(s.number,
                    {{"epoch", s.epoch}, {"loss", loss}, {"lr", s.lr}, {"images_per_second", rate}});
    events_->scalars(s.number, {{"train/loss", loss}, {"train/lr", s.lr}, {"train/images_per_second", rate}});
    images_ = 0;
    logged_ = Clock::now();
  }

  void next_epoch() {
    ++progress_.epoch;
    progress_.batch = 0;
    const bool last = progress_.step >= last_step();
    const double every = config_.eval_every;
    const bool due = every > 0 && std::floor(double(progress_.epoch) / every) >
                                      std::floor(double(progress_.epoch - 1) / every);
    if (due && !last) evaluate_now();
    if (!last) {
      save();
      loader_->start(progress_.epoch);
    }
  }

  Score evaluate_now() {
    finish_steps(0);
    const Clock::time_point start = Clock::now();
    model_->set_training(false);
    if (ema_) ema_->swap();
    const Score score = evaluate(*model_, config_, *test_loader_);
    if (ema_) ema_->swap();
    if (apps::stop_requested() && score.count < test_data_->size()) return score;
    const double mean_loss = progress_.loss_count ? progress_.loss_sum / double(progress_.loss_count) : NAN;
    progress_.best_accuracy = std::max(progress_.best_accuracy, score.accuracy());
    metrics_->write(progress_.step, {{"epoch", progress_.epoch},
                                     {"train_loss", mean_loss},
                                     {"test_loss", score.loss},
                                     {"test_accuracy", score.accuracy()},
                                     {"test_accuracy5", score.accuracy5()},
                                     {"seconds", seconds_since(started_)}});
    events_->scalars(progress_.step, {{"test/loss", score.loss}, {"test/accuracy", score.accuracy()}});
    const std::string line =
        fmt::format("epoch {:3}  train loss {:.4f}  test loss {:.4f}  test accuracy {:.2f} %",
                    progress_.epoch, mean_loss, score.loss, 100 * score.accuracy());
    if (!options_.quiet) bar_ ? bar_->print(line) : void(fmt::print(stderr, "{}\n", line));
    // What the evaluation took belongs to no training step.
    logged_ += std::chrono::duration_cast<Clock::duration>(Clock::now() - start);
    return score;
  }

  void save() {
    finish_steps(0);
    save_checkpoint(folder_, config_, progress_, *model_, *optimizer_, ema_.get());
    saved_ = Clock::now();
  }

  void finish() {
    const Score score = evaluate_now();
    if (apps::stop_requested()) return;
    Results results;
    results.data = describe_data(config_);
    results.ema = ema_ != nullptr;
    results.step = progress_.step;
    results.count = score.count;
    results.top1 = score.accuracy();
    results.top5 = score.accuracy5();
    results.loss = score.loss;
    results.classes = config_.classes;
    results.confusion = score.confusion;
    merge_results(folder_, results);
    write_report(folder_);
    for (const auto& [what, set] : {std::pair{"training", train_data_.get()}, {"test", test_data_.get()}})
      if (set->skipped() > 0)
        fmt::print(stderr, "{} damaged {} pictures were replaced\n", set->skipped(), what);
    fmt::print(
        "test accuracy {:.2f} %, top-5 {:.2f} %, loss {:.4f} on {} pictures after {} steps\nreport {}\n",
        100 * score.accuracy(), 100 * score.accuracy5(), score.loss, score.count, progress_.step,
        (fs::path(folder_) / "report.html").string());
  }

  TrainOptions options_;
  Config config_;
  std::string folder_;
  Device device_;
  Progress progress_;
  nn::Schedule schedule_;
  std::unique_ptr<data::Dataset> train_data_, test_data_;
  std::unique_ptr<nn::VisionTransformer> model_;
  std::unique_ptr<nn::FlatParameters> flat_;
  std::unique_ptr<nn::Optimizer> optimizer_;
  std::unique_ptr<nn::Ema> ema_;
  std::unique_ptr<TrainingStep> step_;
  std::deque<StepUnderWay> under_way_;
  std::unique_ptr<data::Loader> loader_, test_loader_;
  std::unique_ptr<apps::MetricsWriter> metrics_;
  std::unique_ptr<apps::TensorboardWriter> events_;
  apps::Progress* bar_ = nullptr;
  data::Batch batch_;
  Clock::time_point started_, saved_, logged_ = Clock::now();
  int64_t images_ = 0;
};

}  // namespace

int train(TrainOptions options) { return Trainer(std::move(options)).run(); }

}  // namespace pursuit::classify
