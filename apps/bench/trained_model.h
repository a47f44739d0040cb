#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/bench/model_step.h"
#include "apps/bench/profile.h"
#include "engine/files/safetensors.h"
#include "nn/training_step.h"

namespace pursuit::bench {

// A model trained as in the apps, always on the same batch.
template <class Model> class TrainedModel : public ModelStep, public nn::Objective {
 public:
  using Batch = std::map<std::string, Tensor>;  // [batch, ...], on the model's device
  using Loss = std::function<Tensor(const Model&, const Batch&)>;

  TrainedModel(std::unique_ptr<Model> model, DType dtype, Device device, const nn::OptimizerConfig& config,
               Batch batch, Loss loss)
      : model_(std::move(model)),
        flat_((model_->to(device), *model_), nn::decays_by_timm, dtype),
        optimizer_(flat_, config),
        batch_(std::move(batch)),
        loss_(std::move(loss)) {
    model_->set_training(true);
    use(distributed::alone());
  }

  void run() override { step_->start(optimizer_.steps(), learning_rate); }

  StepTimes profile() override {
    optimizer_.begin(learning_rate);
    next_batch(optimizer_.steps() - 1, 0);
    flat_.zero_grad();
    return bench::profile(
        model_->parameters(), flat_.values.device(), [this] { return loss_(*model_, batch_); },
        [this] { optimizer_.update(); });
  }

  std::vector<double> losses(int steps) override {
    model_->set_training(false);
    use(*ranks_);
    std::vector<double> means;
    for (int i = 0; i < steps; ++i) {
      run();
      means.push_back(step_->loss(optimizer_.steps() - 1));
    }
    model_->set_training(true);
    use(*ranks_);  // discards the graph of the model in evaluation mode
    return means;
  }

  void save(const std::string& path) const override {
    std::map<std::string, Tensor> tensors;
    for (const auto& [name, t] : batch_) tensors["batch." + name] = t;
    for (const nn::NamedTensor& t : model_->state()) tensors[t.name] = *t.tensor;
    save_safetensors(path, tensors);
  }

  void join(distributed::Communicator& ranks) override {
    for (auto& [name, t] : batch_) {
      const int64_t part = t.size(0) / ranks.size();
      t = t.slice(0, ranks.rank() * part, (ranks.rank() + 1) * part);
    }
    if constexpr (requires { model_->keep_lookups_apart(1, 1, 1, 1); }) {
      const int64_t tokens = batch_.at("ids").numel();
      model_->keep_lookups_apart(tokens, tokens, 1, ranks.size());
    }
    use(ranks);
  }

 private:
  static constexpr double learning_rate = 5e-4;

  void use(distributed::Communicator& ranks) {
    nn::Ema* const no_average = nullptr;
    ranks_ = &ranks;
    step_.emplace(*this, 1, ranks, flat_, optimizer_, no_average, true);
  }
  nn::SentBatch next_batch(int64_t step, int64_t) override {
    if constexpr (requires { model_->set_step(1, 1); }) model_->set_step(1, uint64_t(step + 1));
    return {1};
  }
  nn::Loss loss() override { return {loss_(*model_, batch_).to(DType::f32).reshape({})}; }

  std::unique_ptr<Model> model_;
  nn::FlatParameters flat_;
  nn::Optimizer optimizer_;
  Batch batch_;
  Loss loss_;
  distributed::Communicator* ranks_ = nullptr;
  std::optional<nn::TrainingStep> step_;
};

}  // namespace pursuit::bench
