#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "apps/bench/profile.h"
#include "apps/bench/workload.h"
#include "engine/graph.h"
#include "nn/optim.h"

namespace pursuit::bench {

// Forward, loss, backward and AdamW, as the apps do them: on a GPU recorded as a graph in the second step.
template <class Model>
struct TrainingStep {
  std::unique_ptr<Model> model;
  nn::FlatParameters flat;
  nn::Optimizer optimizer;
  std::function<Tensor(const Model&)> loss;  // what it reads is where the model is
  bool ran = false;
  std::unique_ptr<Graph> graph;

  TrainingStep(std::unique_ptr<Model> start, DType dtype, Device device, const nn::OptimizerConfig& config)
      : model(std::move(start)),
        flat((model->to(device), model->parameters()), nn::decays_by_timm, dtype),
        optimizer(flat, config) {
    model->set_training(true);
  }

  void begin() {
    optimizer.begin(5e-4);
    model->set_step(1, uint64_t(optimizer.steps()));
  }
  void operator()() {
    begin();
    if (flat.on_gpu() && ran && !graph)
      graph = std::make_unique<Graph>(flat.values.device(), [this] { work(); });
    graph ? graph->launch() : work();
    ran = true;
  }
  void work() {
    const Tensor value = loss(*model);
    flat.zero_grad();
    value.backward();
    optimizer.update();
  }

  // One step without the graph.
  StepTimes profile() {
    begin();
    flat.zero_grad();
    return bench::profile(
        model->parameters(), flat.values.device(), [this] { return loss(*model); },
        [this] { optimizer.update(); });
  }
};

template <class Model>
Step as_step(const std::shared_ptr<TrainingStep<Model>>& step) {
  return {[step] { (*step)(); }, [step] { return step->profile(); }};
}

}  // namespace pursuit::bench
