#include <doctest/doctest.h>

#include <cmath>

#include "cuda/runtime.h"
#include "engine/ops.h"
#include "nn/attention/attention.h"
#include "nn/layers.h"
#include "nn/transformer_lm.h"
#include "tests/needs.h"

using namespace pursuit;

namespace {

// The number of zeros in `got`; all other elements must be `kept` / (1 - rate).
double share_dropped(const Tensor& got, const Tensor& kept, double rate) {
  const std::vector<double> g = got.to_vector(), k = kept.to_vector();
  REQUIRE(g.size() == k.size());
  int64_t dropped = 0;
  for (size_t i = 0; i < g.size(); ++i) {
    REQUIRE(k[i] != 0);
    if (g[i] == 0)
      ++dropped;
    else if (!(std::fabs(g[i] - k[i] / (1 - rate)) <= 1e-5 * std::fabs(g[i])))
      FAIL("number " << i << " is " << g[i] << " of " << k[i]);
  }
  return double(dropped) / double(g.size());
}

nn::Dropout dropout_of(double rate, uint64_t stream) {
  nn::Dropout d;
  d.rate = rate;
  d.seed = 1;
  d.stream = stream;
  return d;
}

nn::AttentionConfig attention_of(const std::string& kind, int iterations) {
  nn::AttentionConfig config;
  config.kind = kind;
  config.options = {{"iterations", iterations}, {"lambda", 0.5}};
  return config;
}

Tensor identity(int64_t n) {
  const Tensor t = zeros({n, n});
  for (int64_t i = 0; i < n; ++i) t.data<float>()[i * n + i] = 1;
  return t;
}

}  // namespace

TEST_CASE(
    "dropout in attention: where it drops nothing it is the fused one, in value and gradient, every kind") {
  for (const std::string& name : nn::attention_kinds())
    for (const bool causal : {false, true}) {
      nn::AttentionConfig config = attention_of(name, 3);
      config.causal = causal;
      if (causal && !nn::attention_kind(config.kind).traits.may_be_causal) continue;
      CAPTURE(name);
      CAPTURE(causal);
      nn::Attention attention(12, 3, config, 7);
      uint64_t stream = 0;
      for (const nn::NamedTensor& p : attention.parameters())
        copy_values(p.tensor->detach(), normal(p.tensor->shape(), 0, 0.4, 3, ++stream));
      const auto run = [&](double rate) {
        Tensor x = normal({2, 7, 12}, 0, 1, 5, 1).to(DType::f64);
        x.requires_grad();
        for (const nn::NamedTensor& p : attention.parameters()) p.tensor->zero_grad();
        const Tensor y = attention.forward(x, {}, dropout_of(rate, 2));
        sum(square(y)).backward();
        std::vector<double> all = y.to_vector();
        const auto take = [&](const Tensor& t) {
          for (const double g : t.grad().to_vector()) all.push_back(g);
        };
        take(x);
        for (const nn::NamedTensor& p : attention.parameters()) take(*p.tensor);
        return all;
      };
      const std::vector<double> fused = run(0), composed = run(1e-12);  // which rounds to keeping all
      REQUIRE(fused.size() == composed.size());
      for (size_t i = 0; i < fused.size(); ++i)
        if (!(std::fabs(fused[i] - composed[i]) <= 1e-5 * (1 + std::fabs(fused[i]))))
          FAIL("number " << i << " is " << composed[i] << ", fused " << fused[i]);
    }
}

TEST_CASE("dropout in attention: drops probabilities, those of the last iteration for RPC") {
  // One-hot values and no projection: what comes out is the probabilities.
  for (const auto kind : {"symmetric", "rpc"}) {
    nn::AttentionConfig config = attention_of(kind, 2);
    config.bias = false;
    nn::Attention attention(48, 1, config);
    const Tensor keys = normal({48, 48}, 0, 0.3, 1, 1);
    copy_values(attention.qkv.weight.detach(), concat({keys, identity(48)}, 0));
    copy_values(attention.proj.weight.detach(), identity(48));
    NoGrad off;
    const Tensor x = identity(48).reshape({1, 48, 48}), whole = attention.forward(x);
    CHECK(share_dropped(attention.forward(x, {}, dropout_of(0.3, 2)), whole, 0.3) ==
          doctest::Approx(0.3).epsilon(0.1));
    CHECK(attention.forward(x, {}, dropout_of(0.3, 2)).to_vector() ==
          attention.forward(x, {}, dropout_of(0.3, 2)).to_vector());
    CHECK(attention.forward(x, {}, dropout_of(0.3, 2)).to_vector() !=
          attention.forward(x, {}, dropout_of(0.3, 3)).to_vector());
  }
}

TEST_CASE("dropout in the MLP: of the hidden units, after the activation") {
  for (const auto f : {Activation::relu, Activation::gelu}) {
    nn::Mlp mlp(48, 48, f);
    copy_values(mlp.fc1.weight.detach(), identity(48));
    copy_values(mlp.fc2.weight.detach(), identity(48));
    NoGrad off;
    const Tensor x = uniform({64, 48}, 0.5, 2, 1, 1), whole = mlp.forward(x);
    CHECK(share_dropped(mlp.forward(x, {}, dropout_of(0.2, 2)), whole, 0.2) ==
          doctest::Approx(0.2).epsilon(0.1));
  }
}

TEST_CASE(
    "dropout in the language model: of embeddings and branches, hidden units, final features, in training "
    "only") {
  nn::LmConfig config;
  config.vocab = 23;
  config.context = 12;
  config.dim = 16;
  config.depth = config.heads = 2;
  config.hidden = 32;
  config.attention.kind = "symmetric";
  const Tensor ids = from_vector(std::vector<int32_t>{0, 4, 7, 22, 1, 1, 9, 3}, {2, 4});
  for (const auto rate :
       {&nn::LmConfig::dropout, &nn::LmConfig::activation_dropout, &nn::LmConfig::output_dropout}) {
    nn::LmConfig one = config;
    one.dropout = 0;
    one.*rate = 0.25;
    nn::TransformerLm model(one);
    nn::initialise(model, model.config().init, 1);
    NoGrad off;
    const Tensor whole = model.features(ids);
    model.set_training(true);
    model.set_step(1, 1);
    const Tensor dropped = model.features(ids);
    CHECK(dropped.to_vector() != whole.to_vector());
    CHECK(model.features(ids).to_vector() == dropped.to_vector());
    if (rate == &nn::LmConfig::output_dropout)
      CHECK(share_dropped(dropped, whole, 0.25) == doctest::Approx(0.25).epsilon(0.5));
    model.set_step(1, 2);
    CHECK(model.features(ids).to_vector() != dropped.to_vector());
    model.set_training(false);
    CHECK(model.features(ids).to_vector() == whole.to_vector());
  }
}

GPU_TEST_CASE("dropout inside branches: on a GPU it drops what it drops on the CPU") {
  const nn::AttentionConfig config = attention_of("rpc", 2);
  const auto run = [&](Device device) {
    nn::Attention attention(12, 3, config, 7);
    uint64_t stream = 0;
    for (const nn::NamedTensor& p : attention.parameters())
      copy_values(p.tensor->detach(), normal(p.tensor->shape(), 0, 0.4, 3, ++stream));
    attention.to(device);
    const Tensor y = attention.forward(normal({2, 9, 12}, 0, 1, 5, 1).to(device), {}, dropout_of(0.3, 2));
    sum(square(y)).backward();
    std::vector<double> all = y.to_vector();
    for (const double g : attention.qkv.weight.grad().to_vector()) all.push_back(g);
    return all;
  };
  const std::vector<double> want = run(cpu), got = run(cuda_device());
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(want[i]).epsilon(1e-3).scale(1e-2));
}

TEST_CASE("generator: batches of a step draw what one batch of all their samples draws") {
  std::vector<Device> devices{cpu};
  if (cuda::available()) devices.push_back(cuda_device());
  for (const Device device : devices) {
    const auto noise_of = [&](uint64_t batch) {
      nn::Generator generator;
      generator.set_step(7, 3, batch, device);
      return generator;
    };
    // [3, 5, 7] is no multiple of a Philox block's four numbers.
    const Shape one{3, 5, 7}, all{12, 5, 7};
    const Tensor x = ones(all, DType::f32, device);
    const Tensor pictures = zeros({12, 3, 8, 9}, DType::u8, device);
    const Tensor boxes = full({12, 4}, 5, DType::i32, device);
    const auto compare = [&](auto draw) {
      const std::vector<double> whole = draw(noise_of(0), 0, 12).to_vector();
      std::vector<double> joined;
      for (uint64_t batch = 0; batch < 4; ++batch) {
        const std::vector<double> part =
            draw(noise_of(batch), int64_t(3 * batch), int64_t(3 * batch) + 3).to_vector();
        joined.insert(joined.end(), part.begin(), part.end());
      }
      CHECK(joined == whole);
      bool other = false;  // than the first batch's
      for (size_t i = joined.size() / 4; i < joined.size(); ++i)
        other = other || joined[i] != joined[i % (joined.size() / 4)];
      CHECK(other);
    };
    compare([&](const nn::Generator& generator, int64_t begin, int64_t end) {
      return generator.dropout(0.5, streams::step::dropout)(x.slice(0, begin, end));
    });
    compare([&](const nn::Generator& generator, int64_t begin, int64_t end) {
      return drop_path(x.slice(0, begin, end), 0.5, generator.seed, generator.of(streams::step::drop_path),
                       generator.counter);
    });
    compare([&](const nn::Generator& generator, int64_t begin, int64_t end) {
      return normalise_images(pictures.slice(0, begin, end), {0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}, DType::f32,
                              boxes.slice(0, begin, end), {}, generator.seed,
                              generator.of(streams::step::erasing), generator.counter);
    });
  }
}
