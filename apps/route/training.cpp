#include <fmt/format.h>

#include "apps/route/partial.h"
#include "apps/route/route.h"
#include "apps/study/run_task.h"
#include "apps/terminal/signals.h"
#include "engine/base/streams.h"
#include "nn/init.h"

namespace pursuit::route {

namespace {

class Task : public apps::TaskOf<RunRecord> {
 public:
  Task(const Config& config, const apps::RunOptions& options, distributed::Communicator& ranks)
      : config_(config), share_(apps::share(config, ranks.rank())), model_(model_config(config)) {
    const bool learns_labels = config.kind == Kind::lehd, quiet = options.quiet || ranks.rank() > 0;
    if (learns_labels && config.data.empty())
      training_ = training_instances(config.problem, config.nodes, config.instances, config.label_rounds,
                                     config.seed, quiet);
    else if (learns_labels)
      training_ = read_instances(config.data, config.instances, 0);
    check_training_data();
    evaluated_ = config.validation > 0
                     ? validation_instances(config.problem, config.nodes, config.validation, quiet)
                     : test_instances(config.problem, config.nodes, config.test_instances, quiet);
    baselines_ = baselines_of(evaluated_);
    config_.data_fingerprint = apps::same_data(
        config.data_fingerprint, {learns_labels ? training_.fingerprint : "drawn", evaluated_.fingerprint},
        config.data);
    nn::initialise(model_, nn::Init::pytorch, config.seed);
  }

  nn::Module& model() override { return model_; }
  std::vector<std::string> head() const override {
    const std::string data =
        training_.all.empty()
            ? fmt::format("{} new instances of {} an epoch", config_.instances,
                          uniform_name(config_.problem, config_.nodes))
            : fmt::format("{} labelled instances of {}{}", training_.all.size(), training_.name,
                          training_.found > std::ssize(training_.all)
                              ? fmt::format(", which has {} (--instances)", training_.found)
                              : "");
    return {"data   " + data, fmt::format("{:6} {} of {}", split(), evaluated_.all.size(), evaluated_.name),
            fmt::format("model  {}, {} layers of width {}, norm {}: {} parameters", choice_name(config_.kind),
                        config_.layers, config_.dim, choice_name(config_.norm), model_.parameter_count())};
  }
  int64_t steps_per_epoch() const override {
    const int64_t epoch = training_.all.empty() ? config_.instances : std::ssize(training_.all);
    return std::max<int64_t>(1, epoch / (config_.batch_size * share_.of));
  }
  void start_epoch(int64_t, int64_t) override {}  // a batch follows from its number alone

  nn::SentBatch next_batch(int64_t step, int64_t batch) override {
    const uint64_t number = uint64_t(step * share_.of + share_.first + batch);
    random_.emplace(config_.seed, streams::mixup.at(number));
    if (model_.lehd) {
      partial_ = draw_partial(training_.all, config_.batch_size, *random_);
    } else {
      std::vector<data::RoutingInstance> drawn;
      for (int64_t i = 0; i < config_.batch_size; ++i)
        drawn.push_back(config_.problem == Problem::cvrp ? data::uniform_cvrp(config_.nodes, *random_)
                                                         : data::uniform_tsp(config_.nodes, *random_));
      nodes_ = routing_features(drawn);
      loads_ = vehicle_loads(drawn);
    }
    return {config_.batch_size};
  }
  nn::Loss loss() override {
    if (model_.lehd) return {partial_.loss(*model_.lehd)};
    const nn::Pomo::Tours tours = model_.pomo->construct(nodes_, &*random_, loads_);
    double mean = 0;
    for (const double length : tours.lengths) mean += length / double(tours.lengths.size());
    return {nn::Pomo::loss(tours), full({}, mean)};
  }

  apps::Validation evaluate() override {
    apps::Validation v;
    const auto all = decode(model_, evaluated_, config_.eval_batch_size, {},
                            [](int64_t) { return !apps::stop_requested(); });
    v.complete = !all.empty();
    if (!v.complete) return v;
    decoded_ = all.back();
    score(evaluated_, baselines_, decoded_, results_);
    v.metrics = {{"test_gap", "test/gap", results_.gap}};
    v.text = fmt::format("{} gap {:.2f} %", split(), 100 * results_.gap);
    v.score = -results_.gap;
    return v;
  }

 private:
  // Throws Error if the file cannot be learnt from.
  void check_training_data() const {
    for (const data::SolvedInstance& s : training_.all)
      if (s.routes.empty() || s.instance.has_depot() != (config_.problem == Problem::cvrp) ||
          s.instance.size() != training_.all[0].instance.size())
        fail(Config::app,
             fmt::format("--data {}: training needs instances of {} with solutions, all of one size",
                         config_.data, choice_name(config_.problem)));
  }

  const char* split() const { return config_.validation > 0 ? "validation" : "test"; }
  const Config& settings() const override { return config_; }
  void fill(Results& results) const override { score(evaluated_, baselines_, decoded_, results); }
  std::string summary(int64_t step) const override {
    return fmt::format("{} gap {:.2f} % on {} after {} steps (nearest neighbour {:.2f} %, savings {:.2f} %)",
                       split(), 100 * results_.gap, evaluated_.name, step, 100 * results_.nearest_gap,
                       100 * results_.savings_gap);
  }

  Config config_;
  data::Share share_;
  Model model_;
  Instances training_, evaluated_;
  Baselines baselines_;           // of evaluated_
  std::optional<Random> random_;  // of the current batch
  PartialBatch partial_;          // lehd
  Tensor nodes_;                  // pomo
  nn::VehicleLoads loads_;
  Decoded decoded_;  // by the last evaluation
  Results results_;  // its scores
};

}  // namespace

int train(const Config& config, const apps::RunOptions& options, distributed::Communicator& ranks) {
  Config on = config;
  if (on.device == "auto") on.device = "cpu";
  return apps::train<Task>(on, options, ranks);
}

}  // namespace pursuit::route
