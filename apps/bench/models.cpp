#include <memory>

#include "apps/bench/workload.h"
#include "engine/graph.h"
#include "engine/ops.h"
#include "engine/random.h"
#include "nn/optim.h"
#include "nn/vit.h"

namespace pursuit::bench {

namespace {

using nn::AttentionKind;
using nn::VitConfig;

constexpr uint64_t seed = 1;

// Forward, cross-entropy with label smoothing, backward and AdamW, as `classify train` does them: on a GPU
// recorded as a graph in the second step.
struct TrainingStep {
  nn::VisionTransformer model;
  nn::FlatParameters flat;
  nn::Optimizer optimizer;
  Tensor images, labels;
  bool ran = false;
  std::unique_ptr<Graph> graph;

  TrainingStep(const VitConfig& config, int64_t batch, DType dtype, Device device)
      : model(config), flat(weights(model, device), nn::decays_by_timm, dtype), optimizer(flat, {}) {
    model.set_training(true);
    images = normal({batch, config.channels, config.image, config.image}, 0, 1, seed, 1).to(dtype).to(device);
    std::vector<int32_t> classes(static_cast<size_t>(batch));
    for (size_t i = 0; i < classes.size(); ++i)
      classes[i] = int32_t(philox_word(seed, 2, i) % uint64_t(config.classes));
    labels = from_vector(classes, {batch}, device);
  }

  static std::vector<nn::NamedTensor> weights(nn::VisionTransformer& model, Device device) {
    nn::initialise(model, nn::Init::timm, seed);
    model.to(device);
    return model.parameters();
  }

  void operator()() {
    optimizer.begin(5e-4);
    if (flat.on_gpu() && ran && !graph) graph = std::make_unique<Graph>(images.device(), [this] { work(); });
    graph ? graph->launch() : work();
    ran = true;
  }
  void work() {
    const Tensor loss = cross_entropy(model.forward(images).to(DType::f32), labels, 0.1);
    flat.zero_grad();
    loss.backward();
    flat.finish_grad();
    optimizer.update();
  }
};

Workload training(const std::string& name, const std::string& what, int64_t batch, const VitConfig& config) {
  return {Workload::Group::model,
          name,
          what,
          "images",
          batch,
          true,
          [config](int64_t b, DType dtype, Device device) {
            auto step = std::make_shared<TrainingStep>(config, b, dtype, device);
            return [step] { (*step)(); };
          }};
}

VitConfig with_attention(VitConfig config, AttentionKind kind, int iterations = 4, int layer = 0) {
  config.attention.kind = kind;
  config.attention.rpc.iterations = iterations;
  config.iterated_layer = layer;
  return config;
}

}  // namespace

std::vector<Workload> model_workloads() {
  const VitConfig deit;  // DeiT-tiny: 224 pixels, patch 16, width 192, 12 blocks, 3 heads, 1000 classes
  VitConfig small;
  small.image = 32;
  small.patch = 4;
  small.depth = 6;
  small.classes = 10;
  return {
      training("deit-tiny-softmax", "DeiT-tiny training step, softmax attention", 8,
               with_attention(deit, AttentionKind::softmax)),
      training("deit-tiny-symmetric", "DeiT-tiny training step, keys as queries", 8,
               with_attention(deit, AttentionKind::symmetric)),
      training("deit-tiny-rpc", "DeiT-tiny training step, RPC n=4 lambda=4 in block 0", 8,
               with_attention(deit, AttentionKind::rpc)),
      training("deit-tiny-rpc-all", "DeiT-tiny training step, RPC n=2 lambda=4 in every block", 8,
               with_attention(deit, AttentionKind::rpc, 2, -1)),
      training("vit32-softmax", "6-block ViT on 32 px training step, softmax attention", 64,
               with_attention(small, AttentionKind::softmax)),
      training("vit32-rpc", "6-block ViT on 32 px training step, RPC n=4 lambda=4 in block 0", 64,
               with_attention(small, AttentionKind::rpc)),
  };
}

}  // namespace pursuit::bench
