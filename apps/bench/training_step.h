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
        [this] { update(); });
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
    for (auto& [name, t] : batch_) {
      const int64_t part = t.size(0) / ranks.size();
      t = t.slice(0, ranks.rank() * part, (ranks.rank() + 1) * part);
    }
  }

 private:
  void begin() {
    optimizer_.begin(5e-4);
    model_->set_step(1, uint64_t(optimizer_.steps()));
  }
  Tensor work() {
    const Tensor value = loss_(*model_, batch_);
    flat_.zero_grad();
    value.backward();
    update();
    return value;
  }
  void update() {
    if (ranks_) {
      flat_.finish_grad();
      ranks_->all_reduce(flat_.grads, distributed::Reduction::mean);
    }
    optimizer_.update();
  }

  std::unique_ptr<Model> model_;
  nn::FlatParameters flat_;
  nn::Optimizer optimizer_;
  Batch batch_;
  Loss loss_;
  distributed::Communicator* ranks_ = nullptr;  // of one process none
  bool ran_ = false;
  std::unique_ptr<Graph> graph_;
};

}  // namespace pursuit::bench
