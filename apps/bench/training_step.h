#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "apps/bench/model_step.h"
#include "apps/bench/profile.h"
#include "engine/files/safetensors.h"
#include "engine/graph.h"
#include "engine/ops.h"
#include "nn/optim.h"
#include "nn/rank_gradients.h"

namespace pursuit::bench {

// As the apps do it: on a GPU recorded as a graph in the second step.
template <class Model>
class TrainingStep : public ModelStep {
 public:
  using Batch = std::map<std::string, Tensor>;  // [batch, ...], where the model is
  using Loss = std::function<Tensor(const Model&, const Batch&)>;

  TrainingStep(std::unique_ptr<Model> model, DType dtype, Device device, const nn::OptimizerConfig& config,
               Batch batch, Loss loss)
      : model_(std::move(model)),
        flat_((model_->to(device), model_->parameters()), nn::decays_by_timm, dtype),
        optimizer_(flat_, config),
        batch_(std::move(batch)),
        loss_(std::move(loss)) {
    model_->set_training(true);
  }

  void run() override {
    begin();
    if (flat_.on_gpu() && ran_ && !graph_)
      graph_ = std::make_unique<Graph>(flat_.values.device(), [this] { work(); });
    if (graph_)
      graph_->launch();
    else
      work();
    ran_ = true;
  }

  StepTimes profile() override {
    begin();
    flat_.zero_grad();
    return bench::profile(
        model_->parameters(), flat_.values.device(), [this] { return loss_(*model_, batch_); },
        [this] { optimizer_.update(); });
  }

  std::vector<double> losses(int steps) override {
    model_->set_training(false);
    std::vector<double> means;
    for (int i = 0; i < steps; ++i) {
      begin();
      const Tensor value = work().to(DType::f32).reshape({1});
      if (ranks_) ranks_->all_reduce(value, distributed::Reduction::mean);
      means.push_back(value.item());
    }
    model_->set_training(true);
    return means;
  }

  void save(const std::string& path) const override {
    std::map<std::string, Tensor> tensors;
    for (const auto& [name, t] : batch_) tensors["batch." + name] = t;
    for (const nn::NamedTensor& p : model_->parameters()) tensors[p.name] = *p.tensor;
    save_safetensors(path, tensors);
  }

  void join(distributed::Communicator& ranks) override {
    ranks_ = &ranks;
    all_ = full({}, ranks.size(), DType::f32, flat_.values.device());
    for (auto& [name, t] : batch_) {
      const int64_t part = t.size(0) / ranks.size();
      t = t.slice(0, ranks.rank() * part, (ranks.rank() + 1) * part);
    }
    if constexpr (requires { model_->keep_lookups_apart(1, 1, 1, 1); }) {
      const int64_t tokens = batch_.at("ids").numel();
      model_->keep_lookups_apart(tokens, tokens, 1, ranks.size());
    }
    gradients_ = std::make_unique<nn::RankGradients>(flat_, ranks);
  }

 private:
  void begin() {
    optimizer_.begin(5e-4);
    model_->set_step(1, uint64_t(optimizer_.steps()));
  }
  Tensor work() {
    const Tensor value = loss_(*model_, batch_);
    if (!ranks_) {
      flat_.zero_grad();
      value.backward();
      optimizer_.update();
    } else {
      flat_.zero_sum();
      gradients_->backward(value, full({}, 1, value.dtype(), value.device()));
      gradients_->wait();
      optimizer_.update(all_);
    }
    return value;
  }

  std::unique_ptr<Model> model_;
  nn::FlatParameters flat_;
  nn::Optimizer optimizer_;
  Batch batch_;
  Loss loss_;
  // Of one process none.
  distributed::Communicator* ranks_ = nullptr;
  std::unique_ptr<nn::RankGradients> gradients_;
  Tensor all_;  // [], how many ranks
  bool ran_ = false;
  std::unique_ptr<Graph> graph_;
};

}  // namespace pursuit::bench
