#include "nn/segmenter.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "cuda/runtime.h"
#include "engine/ops.h"
#include "nn/init.h"
#include "nn/optim.h"
#include "tests/differences.h"

using namespace pursuit;

namespace {

nn::SegmenterConfig small(nn::SegmenterDecoder decoder) {
  nn::SegmenterConfig c;
  c.encoder.image = 16, c.encoder.width = 24, c.encoder.patch = 4;
  c.encoder.dim = 12, c.encoder.depth = 2, c.encoder.heads = 3, c.encoder.classes = 5;
  c.decoder = decoder;
  return c;
}

std::vector<std::string> names(const nn::Module& model) {
  std::vector<std::string> all;
  for (const nn::NamedTensor& p : model.parameters()) all.push_back(p.name);
  return all;
}

Tensor parameter(const nn::Module& model, const std::string& name) {
  for (const nn::NamedTensor& p : model.parameters())
    if (p.name == name) return *p.tensor;
  fail("test", "no parameter " + name);
}

void check_close(const Tensor& got, const Tensor& want, double tolerance) {
  CHECK(largest_difference(got, want) <= tolerance);
}

double norm_of(const Tensor& x) { return std::sqrt(sum(square(x)).item()); }

}  // namespace

TEST_CASE("segmenter: every attention kind and both decoders give logits of the patches and gradients") {
  const Tensor images = uniform({2, 3, 16, 24}, -1, 1, 1, 1);
  for (const auto decoder : {nn::SegmenterDecoder::linear, nn::SegmenterDecoder::mask})
    for (const std::string& kind : nn::attention_kinds()) {
      CAPTURE(kind);
      nn::SegmenterConfig config = small(decoder);
      config.encoder.attention.kind = kind;
      nn::Segmenter model(config);
      nn::initialise(model, nn::Init::pytorch, 2);
      const Tensor logits = model.forward(images);
      CHECK(logits.shape() == Shape{2, 5, 4, 6});
      sum(square(logits)).backward();
      int64_t checked = 0;
      for (const nn::NamedTensor& p : model.parameters()) {
        CAPTURE(p.name);
        REQUIRE(p.tensor->grad().defined());
        for (double g : p.tensor->grad().to_vector()) checked += std::isfinite(g);
      }
      int64_t all = 0;
      for (const nn::NamedTensor& p : model.parameters()) all += p.tensor->numel();
      CHECK(checked == all);
    }
}

TEST_CASE("segmenter: the official names") {
  const nn::Segmenter linear(small(nn::SegmenterDecoder::linear)), mask(small(nn::SegmenterDecoder::mask));
  const auto of_linear = names(linear), of_mask = names(mask);
  const auto has = [](const std::vector<std::string>& all, const std::string& name) {
    return std::count(all.begin(), all.end(), name) == 1;
  };
  for (const char* name :
       {"encoder.cls_token", "encoder.pos_embed", "encoder.patch_embed.proj.weight",
        "encoder.blocks.1.attn.qkv.weight", "encoder.blocks.0.mlp.fc1.bias", "encoder.norm.weight"}) {
    CHECK(has(of_linear, name));
    CHECK(has(of_mask, name));
  }
  CHECK(has(of_linear, "decoder.head.weight"));
  for (const char* name : {"decoder.cls_emb", "decoder.proj_dec.weight", "decoder.blocks.1.norm2.weight",
                           "decoder.decoder_norm.bias", "decoder.proj_patch", "decoder.proj_classes",
                           "decoder.mask_norm.weight"})
    CHECK(has(of_mask, name));
  CHECK(!has(of_linear, "encoder.head.weight"));
  CHECK(parameter(mask, "encoder.pos_embed").shape() == Shape{1, 25, 12});
  for (const char* name : {"encoder.pos_embed", "encoder.cls_token", "decoder.cls_emb"})
    CHECK(!nn::decays_by_timm(name, parameter(mask, name)));
  CHECK(nn::decays_by_timm("decoder.proj_patch", parameter(mask, "decoder.proj_patch")));
}

TEST_CASE("segmenter: RPC iterates in block 0 of encoder and decoder, in the decoder only if wanted") {
  nn::SegmenterConfig config = small(nn::SegmenterDecoder::mask);
  config.encoder.attention.kind = "rpc";
  config.encoder.attention.options["lambda"] = 0.05;
  const Tensor images = uniform({1, 3, 16, 24}, -1, 1, 1, 1);
  const auto logits = [&](const std::string& kind, bool decoder_iterates) {
    config.encoder.attention.kind = kind;
    config.decoder_iterates = decoder_iterates;
    nn::Segmenter model(config);
    nn::initialise(model, nn::Init::pytorch, 2);
    return model.forward(images).to_vector();
  };
  const auto both = logits("rpc", true), encoder = logits("rpc", false);
  const auto none = logits("symmetric", true);
  CHECK(both != encoder);
  CHECK(encoder != none);
}

TEST_CASE("segmenter: the decoder is what the paper writes") {
  // Blocks that add nothing leave the projected tokens and the class embeddings.
  nn::Segmenter model(small(nn::SegmenterDecoder::mask));
  nn::initialise(model, nn::Init::pytorch, 5);
  for (const nn::NamedTensor& p : model.parameters())
    if (p.name.find("blocks.") != std::string::npos && p.name.find("norm") == std::string::npos)
      nn::fill_constant(*p.tensor, 0);
  const Tensor images = uniform({2, 3, 16, 24}, -1, 1, 1, 1);
  const auto w = [&](const char* name) { return parameter(model, name).detach(); };
  const Tensor tokens =
      patchify(images, w("encoder.patch_embed.proj.weight"), w("encoder.patch_embed.proj.bias")) +
      w("encoder.pos_embed").slice(1, 1, 25);
  const Tensor encoded = layer_norm(tokens, w("encoder.norm.weight"), w("encoder.norm.bias"), 1e-6);
  const Tensor projected = linear(encoded, w("decoder.proj_dec.weight"), w("decoder.proj_dec.bias"));
  const auto norm = [&](const Tensor& x) {
    return layer_norm(x, w("decoder.decoder_norm.weight"), w("decoder.decoder_norm.bias"), 1e-5);
  };
  const auto unit = [](const Tensor& x) { return x / sqrt(sum(x * x, {-1}, true)); };
  const Tensor patches = unit(matmul(norm(projected), w("decoder.proj_patch")));
  const Tensor classes = unit(matmul(norm(w("decoder.cls_emb")), w("decoder.proj_classes")));
  const Tensor masks = layer_norm(matmul(patches, classes.transpose(-1, -2)), w("decoder.mask_norm.weight"),
                                  w("decoder.mask_norm.bias"), 1e-5);
  check_close(model.forward(images), masks.permute({0, 2, 1}).reshape({2, 5, 4, 6}), 2e-5);
}

TEST_CASE("segmenter: the encoder's LayerNorm has the config's eps, whatever its weights come from") {
  const Tensor images = uniform({1, 3, 16, 24}, -1, 1, 1, 1);
  std::vector<std::vector<double>> seen;
  for (const double eps : {1e-6, 1e-5}) {
    nn::SegmenterConfig config = small(nn::SegmenterDecoder::linear);
    config.encoder.ln_eps = eps;
    // The config of a classifier with timm's eps.
    nn::VitConfig of_classifier = small(nn::SegmenterDecoder::linear).encoder;
    of_classifier.image = of_classifier.width = 20;
    nn::VisionTransformer classifier(of_classifier);
    nn::initialise(classifier, nn::Init::pytorch, 3);
    std::map<std::string, Tensor> weights;
    for (const nn::NamedTensor& p : classifier.parameters()) {
      // Tokens of a variance beside which eps counts.
      weights[p.name] = p.name.starts_with("patch_embed") || p.name == "pos_embed" ? p.tensor->detach() * 0.01
                                                                                   : p.tensor->detach();
      if (p.name.starts_with("blocks.") && p.name.find("norm") == std::string::npos)
        weights[p.name] = zeros(p.tensor->shape());
    }
    nn::Segmenter model(config);
    nn::initialise(model, nn::Init::timm, 2);
    model.load_encoder(weights, "a.safetensors");
    for (const auto& [name, value] : weights)
      if (!name.starts_with("head.") && name != "pos_embed")
        CHECK(parameter(model, "encoder." + name).to_vector() == value.to_vector());
    const auto w = [&](const char* name) { return parameter(model, name).detach(); };
    const Tensor tokens =
        patchify(images, w("encoder.patch_embed.proj.weight"), w("encoder.patch_embed.proj.bias")) +
        w("encoder.pos_embed").slice(1, 1, 25);
    const Tensor encoded = layer_norm(tokens, w("encoder.norm.weight"), w("encoder.norm.bias"), eps);
    const Tensor want = linear(encoded, w("decoder.head.weight"), w("decoder.head.bias"));
    const Tensor got = model.forward(images);
    check_close(got, want.permute({0, 2, 1}).reshape({1, 5, 4, 6}), 1e-5);
    seen.push_back(got.to_vector());
  }
  CHECK(largest_difference(seen[0], seen[1]) > 1e-3);
}

TEST_CASE("segmenter: every kind of the decoder's dropout, for every attention kind") {
  const Tensor images = uniform({1, 3, 16, 24}, -1, 1, 1, 1);
  for (const std::string& kind : nn::attention_kinds())
    for (const auto rate :
         {&nn::SegmenterConfig::decoder_dropout, &nn::SegmenterConfig::decoder_attention_dropout,
          &nn::SegmenterConfig::decoder_activation_dropout}) {
      CAPTURE(kind);
      nn::SegmenterConfig config = small(nn::SegmenterDecoder::mask);
      config.encoder.attention.kind = kind;
      config.decoder_dropout = 0;
      config.*rate = 0.3;
      nn::Segmenter model(config);
      nn::initialise(model, nn::Init::pytorch, 2);
      const auto at = [&](bool training, uint64_t step) {
        model.set_training(training);
        model.set_step(1, step);
        return model.forward(images).to_vector();
      };
      const auto evaluated = at(false, 1), first = at(true, 1);
      CHECK(first != evaluated);
      CHECK(at(true, 2) != first);
      CHECK(at(true, 1) == first);
      CHECK(at(false, 2) == evaluated);
    }
}

TEST_CASE("segmenter: logits, loss and gradients are those of PyTorch in f64") {
  nn::SegmenterConfig config;
  config.encoder.image = 32, config.encoder.width = 48, config.encoder.patch = 8;
  config.encoder.dim = 24, config.encoder.depth = 2, config.encoder.heads = 3, config.encoder.classes = 7;
  config.encoder.attention.kind = "rpc";
  config.encoder.attention.options["lambda"] = 0.5;
  nn::Segmenter model(config);
  nn::initialise(model, nn::Init::pytorch, 3);
  const Tensor labels = uniform({2, 32, 48}, 0, 7, 1, 2).to(DType::i32);
  const Tensor logits = model.forward(uniform({2, 3, 32, 48}, -1, 1, 1, 1));
  // The same weights in the published formulas, written with PyTorch 2.15.
  const double first[] = {-0.40362357, -0.57988546, 0.53985110, 1.87309542,
                          -0.84899960, 0.64895280,  -1.22939069};
  const double last[] = {-0.75497075, -0.76791233, 1.59643168, 1.50529061,
                         -0.45026776, -0.34866724, -0.77990421};
  const std::vector<double> got = logits.to_vector();
  REQUIRE(got.size() == 2 * 7 * 24);
  for (size_t c = 0; c < 7; ++c) {
    CHECK(std::fabs(got[c * 24] - first[c]) < 5e-5);
    CHECK(std::fabs(got[(7 + c) * 24 + 23] - last[c]) < 5e-5);
  }
  const Tensor loss = upsample_cross_entropy(logits, labels, 3);
  CHECK(std::fabs(loss.item() - 2.3665450831) < 2e-6);
  loss.backward();
  for (const auto& [key, norm] : {std::pair{"encoder.pos_embed", 0.88497745},
                                  {"encoder.blocks.0.attn.qkv.weight", 0.85764385},
                                  {"decoder.cls_emb", 10.79954119},
                                  {"decoder.proj_patch", 1.05626798},
                                  {"decoder.blocks.0.attn.qkv.weight", 3.31991262},
                                  {"decoder.mask_norm.weight", 0.33853872}}) {
    const char* name = key;
    CAPTURE(name);
    CHECK(sqrt(sum(square(parameter(model, name).grad()))).item() == doctest::Approx(norm).epsilon(1e-4));
  }
}

TEST_CASE("segmenter: patches in place of images give the same logits and gradients") {
  std::vector<Device> devices{cpu};
  if (cuda::available()) devices.push_back(cuda_device());
  for (const Device device : devices) {
    nn::Segmenter model(small(nn::SegmenterDecoder::mask));
    nn::initialise(model, nn::Init::timm, 1);
    model.to(device);
    std::vector<uint8_t> numbers(2 * 3 * 16 * 24);
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = uint8_t(i * 37 % 251);
    const Tensor pictures = from_vector(numbers, {2, 3, 16, 24}).to(device);
    const Tensor weight = parameter(model, "encoder.patch_embed.proj.weight");
    const auto of = [&](int64_t patch) {
      const Tensor y = model(
          normalise_images(pictures, {0.5, 0.4, 0.3}, {0.2, 0.2, 0.3}, DType::f32, {}, {}, 0, 0, {}, patch));
      for (const nn::NamedTensor& p : model.parameters()) p.tensor->zero_grad();
      sum(square(y)).backward();
      return std::pair{y.to(cpu), weight.grad().to(cpu)};
    };
    const auto [logits, gradient] = of(0);
    const auto [same_logits, same_gradient] = of(4);
    check_close(same_logits, logits, 1e-5);
    check_close(same_gradient, gradient, 1e-4 * norm_of(gradient));
    // Patches of another grid, as of pictures of another size, have no positions.
    CHECK_THROWS_WITH_AS(model(zeros({2, 6, 48}).to(device)), doctest::Contains("or patches [B, 24, 48]"),
                         Error);
  }
}

TEST_CASE("segmenter: images of other sizes take interpolated positions") {
  nn::Segmenter model(small(nn::SegmenterDecoder::mask));
  nn::initialise(model, nn::Init::timm, 2);
  CHECK(model.forward(uniform({1, 3, 32, 8}, -1, 1, 1, 1)).shape() == Shape{1, 5, 8, 2});
  CHECK_THROWS_AS(model.forward(uniform({1, 3, 18, 8}, -1, 1, 1, 1)), Error);
  CHECK_THROWS_AS(model.forward(uniform({1, 1, 16, 8}, -1, 1, 1, 1)), Error);
  // A plane of positions a + b x + c y stays one: inside, half-pixel interpolation is exact on it.
  std::vector<float> values{7};
  for (int y = 0; y < 4; ++y)
    for (int x = 0; x < 6; ++x) values.push_back(float(1 + 2 * x + 3 * y));
  const Tensor twice = nn::resize_positions(from_vector(values, {1, 25, 1}), 4, 6, 8, 12);
  REQUIRE(twice.shape() == Shape{1, 97, 1});
  const auto got = twice.to_vector();
  CHECK(got[0] == 7);
  for (int y = 1; y < 7; ++y)
    for (int x = 1; x < 11; ++x)
      CHECK(got[size_t(1 + y * 12 + x)] ==
            doctest::Approx(1 + 2 * ((x + 0.5) / 2 - 0.5) + 3 * ((y + 0.5) / 2 - 0.5)));
  CHECK_THROWS_AS(nn::resize_positions(from_vector(values, {1, 25, 1}), 5, 5, 4, 4), Error);
}

TEST_CASE("segmenter: takes a classifier's encoder") {
  nn::VitConfig classifier_config = small(nn::SegmenterDecoder::mask).encoder;
  classifier_config.image = classifier_config.width = 20;
  classifier_config.classes = 9;
  nn::VisionTransformer classifier(classifier_config);
  nn::initialise(classifier, nn::Init::pytorch, 3);
  std::map<std::string, Tensor> weights;
  for (const nn::NamedTensor& p : classifier.parameters()) weights[p.name] = p.tensor->detach();
  nn::Segmenter model(small(nn::SegmenterDecoder::mask));
  nn::initialise(model, nn::Init::timm, 2);
  const auto decoder = parameter(model, "decoder.proj_dec.weight").to_vector();
  model.load_encoder(weights, "a.safetensors");
  CHECK(parameter(model, "encoder.blocks.1.mlp.fc2.weight").to_vector() ==
        weights["blocks.1.mlp.fc2.weight"].to_vector());
  CHECK(parameter(model, "encoder.pos_embed").to_vector() ==
        nn::resize_positions(weights["pos_embed"], 5, 5, 4, 6).to_vector());
  CHECK(parameter(model, "decoder.proj_dec.weight").to_vector() == decoder);
  CHECK(parameter(model, "encoder.pos_embed").needs_grad());
  weights["norm.weight"] = zeros({13});
  CHECK_THROWS_WITH_AS(model.load_encoder(weights, "a.safetensors"),
                       doctest::Contains("a.safetensors: norm.weight"), Error);
  weights.erase("norm.weight");
  CHECK_THROWS_WITH_AS(model.load_encoder(weights, "a.safetensors"), doctest::Contains("has no norm.weight"),
                       Error);
}

TEST_CASE("segmenter: a classifier's square grid becomes another of as many patches, others are refused") {
  nn::VitConfig classifier_config = small(nn::SegmenterDecoder::mask).encoder;
  classifier_config.image = classifier_config.width = 24;  // 6 x 6 patches
  nn::VisionTransformer classifier(classifier_config);
  nn::initialise(classifier, nn::Init::timm, 3);
  std::map<std::string, Tensor> weights;
  for (const nn::NamedTensor& p : classifier.parameters()) weights[p.name] = p.tensor->detach();
  // Every feature is y + 10 x: bilinear interpolation keeps a plane, and holds it at the edge of the grid.
  std::vector<float> positions(37 * 12);
  for (size_t i = 12; i < positions.size(); ++i)
    positions[i] = float((i / 12 - 1) / 6 + 10 * ((i / 12 - 1) % 6));
  weights["pos_embed"] = from_vector(positions, {1, 37, 12});
  nn::SegmenterConfig config = small(nn::SegmenterDecoder::mask);
  config.encoder.image = 16, config.encoder.width = 36;  // 4 x 9
  nn::Segmenter model(config);
  model.load_encoder(weights, "a.safetensors");
  const std::vector<double> got = parameter(model, "encoder.pos_embed").to_vector();
  REQUIRE(got.size() == 37 * 12);
  for (int y = 0; y < 4; ++y)
    for (int x = 0; x < 9; ++x)
      CHECK(got[size_t(12 + (y * 9 + x) * 12)] ==
            doctest::Approx(std::clamp((y + 0.5) * 6 / 4 - 0.5, 0.0, 5.0) +
                            10 * std::clamp((x + 0.5) * 6 / 9 - 0.5, 0.0, 5.0)));
  for (const Shape& shape : {Shape{1, 36, 12}, Shape{1, 1, 12}, Shape{2, 37, 12}, Shape{37, 12}}) {
    weights["pos_embed"] = zeros(shape);
    CHECK_THROWS_WITH_AS(model.load_encoder(weights, "a.safetensors"),
                         doctest::Contains("a.safetensors: pos_embed is"), Error);
  }
}

TEST_CASE("segmenter: decoder dropout follows the step and is off in evaluation") {
  nn::Segmenter model(small(nn::SegmenterDecoder::mask));
  nn::initialise(model, nn::Init::pytorch, 2);
  const Tensor images = uniform({1, 3, 16, 24}, -1, 1, 1, 1);
  const auto evaluated = model.forward(images).to_vector();
  model.set_training(true);
  const auto at = [&](uint64_t step) {
    model.set_step(1, step);
    return model.forward(images).to_vector();
  };
  const auto first = at(1);
  CHECK(first != evaluated);
  CHECK(at(2) != first);
  CHECK(at(1) == first);
  model.set_training(false);
  CHECK(model.forward(images).to_vector() == evaluated);
}

TEST_CASE("segmenter: in bf16 the logits are bf16 and near those of f32") {
  nn::Segmenter model(small(nn::SegmenterDecoder::mask));
  nn::initialise(model, nn::Init::timm, 1);
  const Tensor images = uniform({2, 3, 16, 24}, -1, 1, 1, 3);
  const Tensor rough = model.forward(images.to(DType::bf16));
  CHECK(rough.dtype() == DType::bf16);
  check_close(rough, model.forward(images), 0.1);  // logits of variance 1 over the classes
}
