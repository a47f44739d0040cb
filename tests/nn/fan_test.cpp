// FAN: sizes and names of the published models, class attention, kinds of attention, what is refused. That it
// computes what the published code does is checked by the goldens (fan, fan_rpc) and by tools/fan_check.py.
#include "nn/fan.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "engine/core/shapes_only.h"
#include "nn/init.h"
#include "nn/inspection.h"
#include "tests/differences.h"
#include "tests/message_of.h"

using namespace pursuit;

namespace {

nn::FanConfig small(const std::string& kind = "softmax") {
  nn::FanConfig c{.image = 12, .patch = 4};
  c.dim = 16;
  c.depth = 3;
  c.heads = 2;
  c.classes = 5;
  c.mlp_ratio = 2;
  c.attention.kind = kind;
  return c;
}

Tensor pictures() { return normal({2, 3, 12, 12}, 0, 1, 1, 1); }

bool has(const nn::Module& model, const std::string& name) {
  const std::vector<nn::NamedTensor> state = model.state();
  return std::any_of(state.begin(), state.end(), [&](const auto& p) { return p.name == name; });
}

int64_t count(nn::FanConfig c) {
  const ShapesOnly no_memory;
  return nn::Fan(c).parameter_count();
}

}  // namespace

TEST_CASE("fan: FAN-tiny has the published parameters, without queries the RPC form's") {
  nn::FanConfig tiny, fan_small, symmetric;
  CHECK(count(tiny) == 7'319'920);
  fan_small.dim = 384, fan_small.heads = 8;
  CHECK(count(fan_small) == 28'345'336);
  symmetric.attention.kind = "symmetric";
  CHECK(count(tiny) - count(symmetric) == (12 + 2) * 192 * 193);
  symmetric.attention.kind = "rpc";
  CHECK(count(tiny) - count(symmetric) == (12 + 2) * 192 * 193);
  symmetric.attention.other = "softmax";  // only the first block shares
  CHECK(count(tiny) - count(symmetric) == 192 * 193);
}

TEST_CASE("fan: tensors are named as the published ones") {
  const nn::Fan model(small());
  for (const char* name :
       {"cls_token", "patch_embed.proj.0.0.weight", "patch_embed.proj.0.1.running_var",
        "patch_embed.proj.2.1.weight", "pos_embed.token_projection.bias", "blocks.2.gamma1",
        "blocks.0.attn.q.weight", "blocks.0.attn.kv.bias", "blocks.1.mlp.temperature",
        "blocks.1.mlp.mlp_v.dwconv.conv2.weight", "blocks.1.mlp.mlp_v.dwconv.bn.num_batches_tracked",
        "blocks.1.mlp.mlp_v.gamma", "blocks.1.mlp.norm_v.weight", "blocks.1.mlp.q.bias",
        "cls_attn_blocks.1.attn.q.weight", "cls_attn_blocks.0.mlp.fc2.bias", "norm.weight", "head.bias"})
    CHECK_MESSAGE(has(model, name), name);
  const nn::Fan rpc(small("rpc"));
  CHECK(has(rpc, "blocks.0.attn.kv.weight"));
  CHECK_FALSE(has(rpc, "blocks.0.attn.q.weight"));
  CHECK_FALSE(has(rpc, "cls_attn_blocks.0.attn.q.weight"));
}

TEST_CASE("fan: every kind of attention mixes its tokens, and every parameter gets a gradient") {
  for (const std::string& kind : nn::attention_kinds()) {
    CAPTURE(kind);
    nn::Fan model(small(kind));
    nn::initialise(model, nn::Init::timm, 3);
    model.set_training(true);
    const Tensor logits = model(pictures());
    REQUIRE(logits.shape() == Shape{2, 5});
    cross_entropy(logits, zeros({2}, DType::i64)).backward();
    for (const nn::NamedTensor& p : model.parameters()) {
      CAPTURE(p.name);
      REQUIRE(p.tensor->grad().defined());
      for (const double g : p.tensor->grad().to_vector()) CHECK(std::isfinite(g));
    }
  }
}

TEST_CASE("fan: class attention is a distribution over class token and patches; bf16 stays near f32") {
  nn::Fan model(small("rpc"));
  nn::initialise(model, nn::Init::timm, 3);
  for (const int block : {-2, -1, 0, 1}) {
    const Tensor p = model.class_attention(pictures(), block);
    REQUIRE(p.shape() == Shape{2, 2, 10});
    for (const double total : sum(p, {2}).to_vector()) CHECK(total == doctest::Approx(1));
  }
  CHECK(model.class_attention(pictures(), -1).to_vector() ==
        model.class_attention(pictures(), 1).to_vector());
  CHECK(message_of([&] { model.class_attention(pictures(), 2); }).find("2 with class attention") !=
        std::string::npos);
  const Tensor exact = model(pictures()), rounded = model(pictures().to(DType::bf16));
  CHECK(largest_difference(exact, rounded) < 0.05 * largest_magnitude(exact));
}

TEST_CASE("fan: inspection finds the blocks by name") {
  nn::Fan model(small("rpc"));
  nn::initialise(model, nn::Init::timm, 3);
  nn::AttentionInspection inspection(model);
  inspection.add([&] { model(pictures()); });
  const auto layers = inspection.layers();
  REQUIRE(layers.size() == 3);
  CHECK(layers[0].name == "blocks.0");
  CHECK(layers[2].name == "blocks.2");
  CHECK_FALSE(layers[0].heads[0].pursuit.empty());
}

TEST_CASE("fan: drop path drops in training only, alike for the same step") {
  nn::FanConfig c = small();
  c.drop_path = 0.5;
  c.dropout = 0.2;
  nn::Fan model(c);
  nn::initialise(model, nn::Init::timm, 3);
  const auto logits = [&](uint64_t step) {
    model.set_step(0, step);
    return model(pictures()).to_vector();
  };
  CHECK(logits(0) == logits(1));
  model.set_training(true);
  const auto first = logits(0), second = logits(1);
  CHECK(first != second);
  CHECK(first == logits(0));
}

TEST_CASE("fan: initial weights are those of the published code's scheme") {
  nn::FanConfig c;
  c.depth = 1;
  nn::Fan model(c);
  nn::initialise(model, nn::Init::timm, 1);
  for (const nn::NamedTensor& p : model.parameters()) {
    double square = 0;
    for (const double v : p.tensor->to_vector()) square += v * v / double(p.tensor->numel());
    const double size = std::sqrt(square);
    CAPTURE(p.name);
    if (p.name.ends_with("conv1.weight") || p.name.ends_with("conv2.weight"))
      CHECK(size == doctest::Approx(std::sqrt(2.0 / 9)).epsilon(0.05));
    else if (p.name == "patch_embed.proj.2.0.weight")
      CHECK(size == doctest::Approx(1 / std::sqrt(3 * 9.0 * 24)).epsilon(0.05));  // of U(+-1 / sqrt(fan_in))
    else if (p.name.ends_with("gamma1") || p.name.ends_with("temperature") || p.name.ends_with("mlp_v.gamma"))
      CHECK(size == doctest::Approx(1));
    else if (p.name.ends_with("fc1.weight") || p.name.ends_with("kv.weight"))
      CHECK(size == doctest::Approx(0.02).epsilon(0.05));
  }
}

TEST_CASE("fan: sizes that do not fit are refused in one line") {
  const auto refusal = [](const std::function<void(nn::FanConfig&)>& change) {
    nn::FanConfig c = small();
    change(c);
    return message_of([&] { nn::Fan{c}; });
  };
  CHECK(refusal([](auto& c) { c.patch = 6; }).find("need 4, 8 or 16") != std::string::npos);
  CHECK(refusal([](auto& c) { c.image = 13; }).find("13 pixels") != std::string::npos);
  CHECK(refusal([](auto& c) { c.dim = 12; }).find("multiple of 8") != std::string::npos);
  CHECK(refusal([](auto& c) { c.heads = 3; }).find("3 heads") != std::string::npos);
  CHECK(refusal([](auto& c) { c.attention.layers = "7"; }).find("layers") != std::string::npos);
  const nn::Fan model(small());
  CHECK(message_of([&] {
          model(normal({2, 3, 16, 16}, 0, 1, 1, 1));
        }).find("need [2, 3, 12, 12]") != std::string::npos);
}
