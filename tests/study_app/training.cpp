#include <fmt/format.h>

#include "apps/study/run_task.h"
#include "apps/terminal/signals.h"
#include "engine/base/streams.h"
#include "engine/step/transfer.h"
#include "nn/init.h"
#include "tests/study_app/spirals.h"

namespace pursuit::spirals {

namespace {

class Task : public apps::TaskOf<RunRecord> {
 public:
  Task(const Config& config, const apps::RunOptions&, distributed::Communicator& ranks)
      : config_(config),
        share_(apps::share(config, ranks.rank())),
        model_(model_config(config)),
        points_({config.batch_size, 2}, DType::f32, device_from_name(config.device)),
        labels_({config.batch_size}, DType::i64, device_from_name(config.device)) {
    nn::initialise(model_, nn::Init::pytorch, config.seed);
    model_.to(device_from_name(config.device));
  }

  nn::Module& model() override { return model_; }
  std::vector<std::string> head() const override {
    return {fmt::format("data   two spirals of {} turns, {} points an epoch", config_.turns, config_.points),
            fmt::format("model  two hidden layers of {}: {} parameters", config_.hidden,
                        model_.parameter_count())};
  }
  int64_t steps_per_epoch() const override {
    return std::max<int64_t>(1, config_.points / (config_.batch_size * share_.of));
  }
  void start_epoch(int64_t, int64_t) override {}  // a batch follows from its number alone

  nn::SentBatch next_batch(int64_t step, int64_t batch) override {
    const uint64_t number = uint64_t(step * share_.of + share_.first + batch);
    const Points drawn =
        draw_points(config_.batch_size, config_.turns, Random(config_.seed, streams::mixup.at(number)));
    points_.send(drawn.xy.data());
    labels_.send(drawn.labels.data());
    return {config_.batch_size};
  }
  nn::Loss loss() override {
    return {cross_entropy(model_(points_.tensor().to(config_.dtype)).to(DType::f32), labels_.tensor())};
  }

  apps::Validation evaluate() override {
    measure(model_, config_, 0, 0, results_);
    apps::Validation v;
    v.complete = !apps::stop_requested();
    v.metrics = {{"test_accuracy", "test/accuracy", results_.accuracy}};
    v.text = fmt::format("test accuracy {:.2f} %", 100 * results_.accuracy);
    v.score = results_.accuracy;
    return v;
  }

 private:
  const Config& settings() const override { return config_; }
  void fill(Results& results) const override { measure(model_, config_, 0, 0, results); }
  std::string summary(int64_t step) const override {
    return fmt::format("test accuracy {:.2f} % after {} steps", 100 * results_.accuracy, step);
  }

  Config config_;
  data::Share share_;
  Net model_;
  Upload points_, labels_;
  Results results_;  // of the last evaluation
};

}  // namespace

int train(const Config& config, const apps::RunOptions& options, distributed::Communicator& ranks) {
  return apps::train<Task>(config, options, ranks);
}

}  // namespace pursuit::spirals
