#include "apps/bench/models.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "apps/bench/trained_model.h"
#include "engine/base/random.h"
#include "engine/ops.h"
#include "nn/generate.h"
#include "nn/inference.h"
#include "nn/init.h"
#include "nn/quantization/convert.h"
#include "nn/routing/lehd.h"
#include "nn/routing/pomo.h"

namespace pursuit::bench {

namespace {

using nn::VitConfig;

constexpr uint64_t seed = 1;

// `count` numbers below `limit`.
Tensor random_labels(int64_t count, int64_t limit, uint64_t stream, Device device) {
  std::vector<int64_t> all(static_cast<size_t>(count));
  for (size_t i = 0; i < all.size(); ++i) all[i] = int64_t(philox_word(seed, stream, i) % uint64_t(limit));
  return from_vector(all, {count}, device);
}

using Batch = std::map<std::string, Tensor>;

// A training step of the Model that `config` makes; batch(size, dtype, device) draws its input.
template <class Model, class Config, class MakeBatch>
Workload workload(const std::string& name, const std::string& what, const std::string& unit, int64_t batch,
                  const Config& config, nn::Init init, const nn::OptimizerConfig& optimizer,
                  MakeBatch make_batch, Tensor (*loss)(const Model&, const Batch&)) {
  const auto make = [=](int64_t size, DType dtype, Device device) -> Step {
    auto model = std::make_unique<Model>(config);
    nn::initialise(*model, init, seed);
    if constexpr (requires { model->set_dtype(dtype); }) model->set_dtype(dtype);
    const auto trained = std::make_shared<TrainedModel<Model>>(std::move(model), dtype, device, optimizer,
                                                               make_batch(size, dtype, device), loss);
    return {[trained] { trained->run(); }, trained};
  };
  return {Workload::Group::model, name, what, unit, batch, true, make, [config] {
            return std::make_unique<Model>(config);
          }};
}

}  // namespace

Workload training(const std::string& name, const std::string& what, int64_t batch, const VitConfig& c) {
  const auto draw = [c](int64_t b, DType dtype, Device device) -> Batch {
    return {{"images", normal({b, c.channels, c.image, c.image}, 0, 1, seed, 1).to(dtype).to(device)},
            {"labels", random_labels(b, c.classes, 2, device)}};
  };
  return workload<nn::VisionTransformer>(name, what, "images", batch, c, nn::Init::timm, {}, draw,
                                         [](const nn::VisionTransformer& model, const Batch& in) {
                                           return cross_entropy(model(in.at("images")).to(DType::f32),
                                                                in.at("labels"), 0.1);
                                         });
}

Workload segmentation(const std::string& name, const std::string& what, int64_t batch,
                      const nn::SegmenterConfig& config) {
  const auto draw = [c = config.encoder](int64_t b, DType dtype, Device device) -> Batch {
    const Shape shape{b, c.image, c.image};
    return {{"images", normal({b, c.channels, c.image, c.image}, 0, 1, seed, 1).to(dtype).to(device)},
            {"labels", random_labels(shape.numel(), c.classes, 2, device).reshape(shape)}};
  };
  return workload<nn::Segmenter>(name, what, "images", batch, config, nn::Init::timm, {}, draw,
                                 [](const nn::Segmenter& model, const Batch& in) {
                                   return upsample_cross_entropy(model(in.at("images")), in.at("labels"));
                                 });
}

Workload language(const std::string& name, const std::string& what, int64_t batch,
                  const nn::LmConfig& config) {
  const auto draw = [c = config](int64_t b, DType, Device device) -> Batch {
    const Shape shape{b, c.context};
    return {{"ids", random_labels(shape.numel(), c.vocab, 1, device).reshape(shape)},
            {"labels", random_labels(shape.numel(), c.vocab, 2, device).reshape(shape)}};
  };
  return workload<nn::TransformerLm>(name, what, "sequences", batch, config, config.init,
                                     {.weight_decay = 0, .clip_norm = 0.25}, draw,
                                     [](const nn::TransformerLm& model, const Batch& in) {
                                       return model.loss(in.at("ids"), in.at("labels"));
                                     });
}

namespace {

// LEHD's first step of 100 nodes, with the largest decoder.
Workload lehd() {
  const auto draw = [](int64_t b, DType, Device) -> Batch {
    return {{"nodes", uniform({b, 100, 2}, 0, 1, seed, 1)}, {"labels", random_labels(b, 98, 2, cpu)}};
  };
  Workload w = workload<nn::Lehd>(
      "lehd", "LEHD training step, 6 decoder layers over 100 nodes", "instances", 64, nn::LehdConfig{},
      nn::Init::pytorch, {.weight_decay = 0}, draw, [](const nn::Lehd& model, const Batch& in) {
        return cross_entropy(model.step_logits(in.at("nodes"), 0), in.at("labels"));
      });
  w.takes_bf16 = false;
  return w;
}

// POMO with 50 starts: the trajectories of an instance, drawn, and their gradient.
Workload pomo() {
  const auto draw = [](int64_t b, DType, Device) -> Batch {
    return {{"nodes", uniform({b, 50, 2}, 0, 1, seed, 1)}};
  };
  Workload w = workload<nn::Pomo>("pomo", "POMO training step, 6 encoder layers, 50 starts of 50 nodes",
                                  "instances", 64, nn::PomoConfig{}, nn::Init::pytorch, {.weight_decay = 0},
                                  draw, [](const nn::Pomo& model, const Batch& in) {
                                    Random random(seed, 2);
                                    return nn::Pomo::loss(model.construct(in.at("nodes"), &random));
                                  });
  w.takes_bf16 = false;
  return w;
}

}  // namespace

VitConfig with_attention(VitConfig config, const std::string& kind, const nn::KindOptions& options,
                         const std::string& layers) {
  config.attention.kind = kind;
  config.attention.options = options;
  config.attention.layers = layers;
  return config;
}

namespace {

enum class Weights { as_dtype, int8 };

// A model that is used, not trained. With int8 weights, show(model) gives it the batch that the ranges of its
// activations are taken of.
template <class Model> struct Used {
  template <class Config, class Show>
  Used(Config config, nn::Init init, Weights weights, Device device, const Show& show)
      : model(std::make_unique<Model>(config)) {
    nn::initialise(*model, init, seed);
    if (weights == Weights::int8) {
      config.quantization = nn::QuantizationConfig{};
      auto coded = std::make_unique<Model>(config);
      nn::quantize_weights(*model, *coded, {});
      model = std::move(coded);
    }
    for (const nn::NamedTensor& p : model->parameters()) *p.tensor = p.tensor->detach();
    model->to(device);
    if (weights == Weights::int8) nn::calibrate(*model, 1, [&](int64_t) { show(*model); });
    inference.emplace(*model);
  }
  std::unique_ptr<Model> model;
  std::optional<nn::Inference> inference = {};

  double weight_bytes(DType dtype) const {
    double bytes = 0;
    for (const nn::NamedTensor& t : model->state())
      bytes += double(t.tensor->numel() * (t.tensor->dtype() == DType::i8 ? 1 : size_of(dtype)));
    return bytes;
  }
};

// A forward pass of DeiT-tiny in evaluation.
template <Weights weights> Step images_forward(int64_t batch, DType dtype, Device device) {
  const VitConfig c = with_attention({}, "softmax");
  const Tensor images = normal({batch, c.channels, c.image, c.image}, 0, 1, seed, 1).to(dtype).to(device);
  const NoGrad off;
  const auto used = std::make_shared<Used<nn::VisionTransformer>>(
      c, nn::Init::timm, weights, device,
      [&](const nn::VisionTransformer& model) { model(images.slice(0, 0, std::min<int64_t>(batch, 4))); });
  return {[used, images] {
    const NoGrad evaluating;
    (*used->model)(images);
  }};
}

nn::LmConfig published_lm() {
  nn::LmConfig config;  // 16 layers, width 128, 8 heads, 2048, as published but for the positions
  config.vocab = 33278;
  config.attention.bias = false;
  config.positions = nn::Positions::learned;
  return config;
}

// log p of every word of `batch` windows.
template <Weights weights> Step text_forward(int64_t batch, DType dtype, Device device) {
  const nn::LmConfig config = published_lm();
  const Shape shape{batch, config.context};
  const auto ids = [&](uint64_t stream) {
    return random_labels(shape.numel(), config.vocab, stream, device).reshape(shape);
  };
  const Tensor words = ids(1), labels = ids(2);
  const NoGrad off;
  const auto used = std::make_shared<Used<nn::TransformerLm>>(
      config, config.init, weights, device, [&](const nn::TransformerLm& model) { model.features(words); });
  used->model->set_dtype(dtype);
  return {[used, words, labels] { used->model->log_prob_of(words, labels); }};
}

// Generates `words` words greedily after a prompt whose keys and values are cached.
template <Weights weights> Step generation(int64_t words, DType dtype, Device device) {
  constexpr int64_t prompt = 64;
  const nn::LmConfig config = published_lm();
  if (prompt + words > config.context)
    fail("bench", "got --batch " + std::to_string(words) + ", need at most " +
                      std::to_string(config.context - prompt) + " words after a prompt of " +
                      std::to_string(prompt));
  const Tensor first = random_labels(prompt, config.vocab, 1, device).reshape({1, prompt});
  const NoGrad off;
  const auto used = std::make_shared<Used<nn::TransformerLm>>(
      config, config.init, weights, device, [&](const nn::TransformerLm& model) { model.features(first); });
  used->model->set_dtype(dtype);
  const auto after_prompt = std::make_shared<nn::LmCache>();
  used->model->next_logits(first, *after_prompt);
  const auto run = [used, after_prompt, words, device] {
    nn::LmCache cache = *after_prompt;
    Random random(seed, 0);
    int64_t word = 0;
    for (int64_t i = 0; i < words; ++i) {
      const Tensor ids = from_vector(std::vector<int64_t>{word}, {1, 1}, device);
      word = nn::sample(used->model->next_logits(ids, cache).to_vector(), {.temperature = 0}, random);
    }
  };
  return {run, {}, used->weight_bytes(dtype)};
}

}  // namespace

std::vector<Workload> inference_workloads() {
  constexpr auto group = Workload::Group::inference;
  constexpr auto int8 = Workload::Factors::int8_and_f32;
  return {
      {group, "deit-tiny-forward", "DeiT-tiny forward pass in evaluation", "images", 64, true,
       images_forward<Weights::as_dtype>},
      {group, "deit-tiny-forward-1", "the same, one image at a time", "images", 1, true,
       images_forward<Weights::as_dtype>},
      with_factors(int8, {group, "deit-tiny-int8", "the same with int8 weights and activations", "images", 64,
                          false, images_forward<Weights::int8>}),
      with_factors(int8, {group, "deit-tiny-int8-1", "the same, one image at a time", "images", 1, false,
                          images_forward<Weights::int8>}),
      {group, "lm-forward", "log p of 256 words by the 16-layer LM with learned positions", "sequences", 4,
       true, text_forward<Weights::as_dtype>},
      with_factors(int8, {group, "lm-int8", "the same with int8 weights and activations", "sequences", 4,
                          false, text_forward<Weights::int8>}),
      {group, "lm-generate", "words of the 16-layer LM with learned positions, after 64", "words", 64, true,
       generation<Weights::as_dtype>},
      with_factors(int8, {group, "lm-generate-int8", "the same with int8 weights and activations", "words",
                          64, false, generation<Weights::int8>}),
  };
}

std::vector<Workload> model_workloads() {
  constexpr auto rpc_too = Workload::Factors::as_dtype_and_f32;
  VitConfig deit;  // DeiT-tiny: 224 pixels, patch 16, width 192, 12 blocks, 3 heads, 1000 classes
  deit.drop_path = 0.1;
  VitConfig small;
  small.image = 32;
  small.patch = 4;
  small.depth = 6;
  small.classes = 10;
  nn::SegmenterConfig linear;
  linear.encoder.image = 256;
  linear.encoder.classes = 150;
  linear.encoder.drop_path = 0.1;
  linear.decoder = nn::SegmenterDecoder::linear;
  nn::SegmenterConfig linear512 = linear;
  linear512.encoder.image = 512;
  nn::LmConfig full;   // 16 layers, width 128, 8 heads, 2048, 256 tokens, as published
  full.vocab = 33278;  // WikiText-2's words
  full.attention.bias = false;
  nn::LmConfig adaptive = full;
  adaptive.cutoffs = {20000};
  nn::LmConfig large = full;
  large.vocab = 267735;  // WikiText-103's
  large.cutoffs = {20000, 40000, 200000};
  nn::LmConfig rpc = adaptive;
  rpc.attention.kind = "rpc";
  rpc.attention.options["mu-scope"] = "prefix";
  rpc.attention.layers = "0-3";
  return {
      training("deit-tiny-softmax", "DeiT-tiny training step, softmax attention", 8,
               with_attention(deit, "softmax")),
      training("deit-tiny-symmetric", "DeiT-tiny training step, keys as queries", 8,
               with_attention(deit, "symmetric")),
      with_factors(rpc_too, training("deit-tiny-rpc", "DeiT-tiny training step, RPC n=4 lambda=4 in block 0",
                                     8, with_attention(deit, "rpc"))),
      with_factors(rpc_too,
                   training("deit-tiny-rpc-all", "DeiT-tiny training step, RPC n=2 lambda=3 in every block",
                            8, with_attention(deit, "rpc", {{"iterations", 2}, {"lambda", 3.0}}, "all"))),
      training("vit32-softmax", "6-block ViT on 32 px training step, softmax attention", 64,
               with_attention(small, "softmax")),
      with_factors(rpc_too,
                   training("vit32-rpc", "6-block ViT on 32 px training step, RPC n=4 lambda=4 in block 0",
                            64, with_attention(small, "rpc"))),
      segmentation("segment-tiny", "ViT-tiny on 256 px, linear decoder of 150 classes, training step", 4,
                   linear),
      segmentation("segment-tiny-512", "the same on 512 px", 2, linear512),
      language("lm-paper", "16-layer LM training step, 256 tokens, softmax over 33278 words", 4, full),
      language("lm-paper-adaptive", "the same with adaptive softmax", 4, adaptive),
      language("lm-paper-267735", "the same over 267735 words, in four parts", 4, large),
      with_factors(rpc_too,
                   language("lm-paper-rpc",
                            "the same with RPC n=4 lambda=4 in 4 blocks, the others symmetric", 4, rpc)),
      lehd(),
      pomo(),
  };
}

}  // namespace pursuit::bench
