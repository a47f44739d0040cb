#include "nn/transformer_lm.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "cuda/runtime.h"
#include "engine/base/random.h"
#include "engine/core/shapes_only.h"
#include "engine/ops.h"
#include "engine/step/graph.h"
#include "nn/locater.h"
#include "nn/optim.h"
#include "tests/differences.h"
#include "tests/needs.h"

using namespace pursuit;

namespace {

nn::LmConfig small(const std::string& kind = "softmax") {
  nn::LmConfig c;
  c.vocab = 23;
  c.context = 12;
  c.dim = 16;
  c.depth = c.heads = 2;
  c.hidden = 64;
  c.activation = Activation::gelu;
  c.pre_norm = true;
  c.positions = nn::Positions::learned;
  c.scale_embedding = false;
  c.dropout = 0;
  c.init = nn::Init::gpt2;
  c.attention.kind = kind;
  c.attention.options["mu-scope"] = "prefix";
  return c;
}

// The language model of Teo & Nguyen 2024.
nn::LmConfig published(int64_t vocab) {
  nn::LmConfig c;
  c.vocab = vocab;
  c.attention.kind = "rpc";
  c.attention.layers = "0-3";
  c.attention.bias = false;
  c.attention.options["mu-scope"] = "prefix";
  return c;
}

// The one of Bao, Hataya & Karakida 2024.
nn::LmConfig one_layer(int64_t vocab) {
  nn::LmConfig c;
  c.vocab = vocab;
  c.context = 64;
  c.depth = c.heads = 1;
  c.hidden = 128;
  c.positions = nn::Positions::fairseq;
  c.tied = false;
  c.init = nn::Init::fairseq;
  return c;
}

Tensor random_ids(int64_t batch, int64_t tokens, int64_t vocab, uint64_t stream) {
  std::vector<int32_t> ids(size_t(batch * tokens));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = int32_t(philox_word(5, stream, i) % uint64_t(vocab));
  return from_vector(ids, {batch, tokens});
}

// Weights large enough for attention to be far from uniform.
void fill(nn::TransformerLm& model) {
  nn::initialise(model, model.config().init, 1);
  uint64_t stream = 100;
  for (const nn::NamedTensor& p : model.parameters())
    copy_values(p.tensor->detach(), p.tensor->detach() + normal(p.tensor->shape(), 0, 0.2, 7, ++stream));
}

// The first token whose features change when token `at` does.
int64_t first_changed(const nn::TransformerLm& model, int64_t at) {
  const int64_t tokens = model.config().context, dim = model.config().dim;
  const Tensor ids = random_ids(1, tokens, model.config().vocab, 1);
  const Tensor other = ids.contiguous();
  Tensor changed = empty_like(other);
  copy_values(changed, other);
  changed.data<int32_t>()[at] = (changed.data<int32_t>()[at] + 1) % int32_t(model.config().vocab);
  NoGrad off;
  const std::vector<double> a = model.features(ids).to_vector(), b = model.features(changed).to_vector();
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t j = 0; j < dim; ++j)
      if (a[size_t(t * dim + j)] != b[size_t(t * dim + j)]) return t;
  return tokens;
}

}  // namespace

TEST_CASE("lm: a pass on shapes leaves the sinusoids to be made") {
  const auto model = [] {
    auto made = std::make_unique<nn::TransformerLm>(one_layer(23));
    nn::initialise(*made, nn::Init::fairseq, 1);
    made->set_training(false);
    return made;
  };
  const auto first = model(), second = model();
  const Tensor ids = from_vector(std::vector<int64_t>{3, 1, 4, 1, 5}, {1, 5});
  {
    const ShapesOnly only;
    second->log_prob_of(ids, ids);
  }
  const std::vector<double> wanted = first->log_prob_of(ids, ids).to_vector();
  CHECK(wanted.size() == 5);
  CHECK(second->log_prob_of(ids, ids).to_vector() == wanted);
}

TEST_CASE("lm: no kind and no setting shows a token those after it") {
  std::vector<nn::LmConfig> all;
  for (const std::string& name : nn::attention_kinds()) {
    if (!nn::attention_kind(name).traits.may_be_causal) {
      CHECK_THROWS_AS(nn::TransformerLm(small(name)), Error);
      continue;
    }
    all.push_back(small(name));
    all.back().pre_norm = false;
    all.push_back(small(name));
  }
  CHECK(all.size() == 24);  // twelve kinds, two places of the norms
  nn::LmConfig every_layer = small("rpc");
  every_layer.attention.layers = "all";
  every_layer.attention.options["detach-mu"] = true;
  all.push_back(every_layer);
  for (nn::LmConfig of_a_paper : {published(23), one_layer(23)}) {
    of_a_paper.context = 12;
    of_a_paper.dim = 16;
    of_a_paper.depth = 1;
    of_a_paper.attention.layers = "auto";
    all.push_back(of_a_paper);
  }
  for (const nn::LmConfig& config : all) {
    CAPTURE(config.attention.kind);
    nn::TransformerLm model(config);
    fill(model);
    for (const DType dtype : {DType::f32, DType::bf16}) {
      model.set_dtype(dtype);
      for (const int64_t at : {0, 5, 11}) CHECK(first_changed(model, at) == at);
    }
  }
}

TEST_CASE("lm: a model that is not causal shows every token all others") {
  for (const std::string kind : {"softmax", "clipped", "gated", "symmetric"}) {
    CAPTURE(kind);
    nn::LmConfig config = small(kind);
    config.causal = false;
    nn::TransformerLm model(config);
    fill(model);
    for (const int64_t at : {0, 5, 11}) CHECK(first_changed(model, at) == 0);
    CHECK(!model.has_cache());
  }
}

TEST_CASE("lm: mu of the whole window shows every token something of the others, as published") {
  nn::LmConfig config = small("rpc");
  config.attention.options["mu-scope"] = "window";
  nn::TransformerLm model(config);
  fill(model);
  CHECK(first_changed(model, 11) < 11);
}

TEST_CASE("lm: with a cache the next words are those of the whole context") {
  for (const std::string name : {"softmax", "symmetric", "clipped", "gated", "reversed"}) {
    CAPTURE(name);
    nn::LmConfig config = small(name == "reversed" ? "softmax" : name);
    if (name == "reversed") config.positions = nn::Positions::reversed;
    nn::TransformerLm model(config);
    fill(model);
    model.set_dtype(DType::f64);
    const Tensor ids = random_ids(3, 12, 23, 2);
    nn::LmCache cache;
    int64_t read = 0;
    for (const int64_t tokens : {4, 1, 1, 5, 1}) {  // a prompt, words one by one, and some at a time
      const std::vector<double> got = model.next_logits(ids.slice(1, read, read + tokens), cache).to_vector();
      read += tokens;
      const std::vector<double> want = model.next_logits(ids.slice(1, 0, read)).to_vector();
      REQUIRE(got.size() == 3 * 23);
      for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(want[i]).epsilon(1e-12));
    }
    CHECK_THROWS_AS(model.next_logits(ids.slice(1, 0, 1), cache), Error);  // the context is full
  }
  for (const std::string name : {"rpc", "linear", "scaled-alpha"}) {
    nn::TransformerLm model(small(name));
    CHECK_FALSE(model.has_cache());
    nn::LmCache cache;
    CHECK_THROWS_AS(model.next_logits(random_ids(1, 3, 23, 1), cache), Error);
  }
}

TEST_CASE("lm: a text that is shorter than the window has the positions of a padded one") {
  for (const auto& position : nn::choices_of(nn::Positions())) {
    CAPTURE(position.name);
    nn::LmConfig config = small();
    config.positions = position.value;
    nn::TransformerLm model(config);
    fill(model);
    model.set_dtype(DType::f64);
    const Tensor ids = random_ids(2, 12, 23, 2), labels = random_ids(2, 12, 23, 3);
    const Tensor whole = model.log_prob_of(ids, labels);
    for (const int64_t tokens : {1, 5, 11}) {
      const Tensor shorter = model.log_prob_of(ids.slice(1, 0, tokens), labels.slice(1, 0, tokens));
      CHECK(largest_difference(shorter, whole.slice(1, 0, tokens)) < 1e-12);
    }
  }
}

TEST_CASE("lm: loss, log probabilities and next words agree") {
  for (const std::vector<int64_t>& cutoffs : {std::vector<int64_t>{}, {7, 15}})
    for (const bool tied : {true, false}) {
      nn::LmConfig config = small();
      config.cutoffs = cutoffs;
      config.tied = tied;
      config.output_bias = cutoffs.empty() != tied;
      config.div_value = 2;
      nn::TransformerLm model(config);
      fill(model);
      model.set_dtype(DType::f64);
      const Tensor ids = random_ids(2, 12, 23, 3), labels = random_ids(2, 12, 23, 4);
      labels.data<int32_t>()[3] = labels.data<int32_t>()[17] = -1;
      const std::vector<double> log_p = model.log_prob_of(ids, labels).to_vector();
      double sum = 0;
      for (const double p : log_p) sum += p;
      CHECK(log_p[3] == 0);
      CHECK(log_p[17] == 0);
      CHECK(model.loss(ids, labels).item() == doctest::Approx(-sum / 22).epsilon(1e-12));
      const std::vector<double> next = model.next_logits(ids).to_vector();
      REQUIRE(next.size() == 2 * 23);
      for (size_t b = 0; b < 2; ++b) {
        double total = 0;
        for (size_t c = 0; c < 23; ++c) total += std::exp(next[b * 23 + c]);
        CHECK(total == doctest::Approx(1).epsilon(1e-12));
        CHECK(next[b * 23 + size_t(labels.data<int32_t>()[b * 12 + 11])] ==
              doctest::Approx(log_p[b * 12 + 11]).epsilon(1e-12));
      }
    }
}

TEST_CASE("lm: gradients are slopes of the loss, of every parameter") {
  nn::LmConfig rpc = published(19), pre = small("gated");
  rpc.context = 6;
  rpc.dim = 8;
  rpc.depth = 2;
  rpc.heads = 2;
  rpc.hidden = 12;
  rpc.attention.layers = "0";
  rpc.cutoffs = {5, 11};
  rpc.output_bias = true;
  rpc.activation_dropout = rpc.output_dropout = 0.1;
  for (const nn::LmConfig& config : {rpc, pre}) {
    nn::TransformerLm model(config);
    fill(model);
    model.set_dtype(DType::f64);
    model.set_training(true);
    model.set_step(3, 1);
    const Tensor ids = random_ids(2, 6, config.vocab, 3), labels = random_ids(2, 6, config.vocab, 4);
    model.loss(ids, labels).backward();
    for (const nn::NamedTensor& p : model.parameters()) {
      CAPTURE(p.name);
      // Along one random direction through all of the parameter's numbers, so short that it meets no kink of
      // ReLU or the threshold; how far f32 lets them move is measured.
      const double h = 0x1p-17;
      const Tensor start = empty_like(p.tensor->detach()), along = normal(p.tensor->shape(), 0, 1, 8, 1);
      copy_values(start, *p.tensor);
      const auto loss_at = [&](double step) {
        NoGrad off;
        copy_values(p.tensor->detach(), start + along * step);
        const Tensor moved = (p.tensor->detach() - start) / step;
        const double loss = model.loss(ids, labels).item();
        double slope = 0;
        const std::vector<double> g = p.tensor->grad().to_vector(), d = moved.to_vector();
        for (size_t i = 0; i < g.size(); ++i) slope += g[i] * d[i];
        return std::pair(loss, slope);
      };
      const auto [above, up] = loss_at(h);
      const auto [below, down] = loss_at(-h);
      copy_values(p.tensor->detach(), start);
      CHECK((above - below) / (2 * h) == doctest::Approx((up + down) / 2).epsilon(2e-3).scale(0.05));
    }
  }
}

TEST_CASE("lm: dropout follows the seed and the step alone") {
  nn::LmConfig config = small();
  config.dropout = 0.3;
  nn::TransformerLm model(config);
  fill(model);
  const Tensor ids = random_ids(2, 12, 23, 3), labels = random_ids(2, 12, 23, 4);
  const double whole = model.loss(ids, labels).item();
  model.set_training(true);
  const auto at = [&](uint64_t seed, uint64_t step) {
    model.set_step(seed, step);
    return model.loss(ids, labels).item();
  };
  const double first = at(1, 1);
  CHECK(first != whole);
  CHECK(at(1, 2) != first);
  CHECK(at(2, 1) != first);
  CHECK(at(1, 1) == first);
}

TEST_CASE("lm: attention entropy is that of the probabilities, 3.0 nats in the LOCATER setting at first") {
  nn::TransformerLm model(one_layer(1000));
  nn::initialise(model, model.config().init, 1);
  const Tensor entropy = model.attention_entropy(random_ids(16, 64, 1000, 1));
  CHECK(entropy.shape() == Shape{1, 1});
  CHECK(std::fabs(entropy.item() - 3.0) < 0.05);

  // Keys of 0 leave attention uniform: row t has log(t + 1).
  for (const std::string name : {"softmax", "symmetric", "linear", "rpc"}) {
    CAPTURE(name);
    nn::LmConfig config = small(name);
    nn::TransformerLm uniform_model(config);
    fill(uniform_model);
    for (const nn::NamedTensor& p : uniform_model.parameters())
      if (p.name.find("attn.qkv") != std::string::npos)
        copy_values(p.tensor->detach(), zeros(p.tensor->shape()));
    double want = 0;
    for (int t = 0; t < 12; ++t) want += std::log(t + 1) / 12;
    for (const double h : uniform_model.attention_entropy(random_ids(2, 12, 23, 1)).to_vector())
      CHECK(h == doctest::Approx(want).epsilon(1e-5));
  }
}

TEST_CASE("lm: RPC-Attention that sees both sides takes mu of all tokens, whatever mu-scope is") {
  nn::LmConfig config = small("rpc");
  config.causal = false;
  config.attention.options["lambda"] = 0.5;
  const Tensor ids = random_ids(2, 12, 23, 1);
  std::vector<std::vector<double>> features;
  for (const std::string scope : {"window", "prefix"}) {
    config.attention.options["mu-scope"] = scope;
    nn::TransformerLm model(config);
    fill(model);
    const NoGrad off;
    features.push_back(model.features(ids).to_vector());
  }
  CHECK(features[0] == features[1]);
}

TEST_CASE("lm: the query and key weights of a head give its scores") {
  for (const std::string name : {"softmax", "symmetric"}) {
    nn::LmConfig config = small(name);
    config.attention.bias = false;
    nn::TransformerLm model(config);
    fill(model);
    const nn::Attention& attn = model.attention(0);
    NoGrad off;
    const Tensor x = normal({1, 12, 16}, 0, 1, 1, 1), queries = attn.query_weights(),
                 keys = attn.key_weights();
    REQUIRE(queries.shape() == Shape{2, 8, 16});
    const std::vector<double> p = attn.probabilities(x).to_vector();
    for (int64_t h = 0; h < 2; ++h) {
      const Tensor w = matmul(queries.select(0, h).transpose(0, 1), keys.select(0, h));  // W_Q^T W_K
      const Tensor row = x.reshape({12, 16}).slice(0, 11, 12);
      const std::vector<double> want =
          softmax(matmul(matmul(row, w), x.reshape({12, 16}).transpose(0, 1)) / std::sqrt(8.0)).to_vector();
      for (size_t j = 0; j < 12; ++j)
        CHECK(p[(size_t(h) * 12 + 11) * 12 + j] == doctest::Approx(want[j]).epsilon(1e-4));
    }
  }
}

TEST_CASE("lm: LOCATER of all heads at once is the sum over the heads, in value and gradient") {
  for (const std::string name : {"softmax", "symmetric"}) {
    CAPTURE(name);
    nn::TransformerLm model(small(name));
    fill(model);
    const nn::Attention& attn = model.attention(1);
    const nn::LocaterOptions options{.beta = 0.7, .c = 3};
    const Tensor together = nn::locater(attn.query_weights(), attn.key_weights(), options);
    together.backward();
    // Rows of the projection by hand: queries first, keys 2 * 16 rows from the end, 8 to a head.
    Tensor rows = attn.qkv.weight.detach();
    rows.requires_grad();
    const int64_t keys = rows.size(0) - 32;
    const auto of_head = [&](int64_t h) {
      return nn::locater(rows.slice(0, 8 * h, 8 * h + 8), rows.slice(0, keys + 8 * h, keys + 8 * h + 8),
                         options);
    };
    const Tensor apart = of_head(0) + of_head(1);
    apart.backward();
    CHECK(together.item() == doctest::Approx(apart.item()).epsilon(1e-6));
    const std::vector<double> got = attn.qkv.weight.grad().to_vector(), want = rows.grad().to_vector();
    CHECK(largest_magnitude(want) > 0);
    CHECK(largest_difference(got, want) <= 1e-6 * largest_magnitude(want));
  }
}

TEST_CASE("lm: parameters by name, and errors") {
  const auto names = [](const nn::LmConfig& config) {
    const nn::TransformerLm model(config);
    std::string all;
    for (const nn::NamedTensor& p : model.parameters())
      if (p.name.find("blocks.") == std::string::npos || p.name.find("blocks.0.attn") != std::string::npos)
        all += p.name + p.tensor->shape().str() + " ";
    return all;
  };
  nn::LmConfig adaptive = published(33278);
  adaptive.cutoffs = {20000};
  CHECK(names(adaptive) ==
        "embed.weight[33278, 128] blocks.0.attn.qkv.weight[256, 128] blocks.0.attn.proj.weight[128, 128] "
        "output.head.cluster.weight[1, 128] ");
  CHECK(names(one_layer(30)) ==
        "embed.weight[30, 128] blocks.0.attn.qkv.weight[384, 128] blocks.0.attn.qkv.bias[384] "
        "blocks.0.attn.proj.weight[128, 128] blocks.0.attn.proj.bias[128] output.head.weight[30, 128] ");
  nn::TransformerLm model(small());
  CHECK_THROWS_AS(model.loss(random_ids(1, 13, 23, 1), random_ids(1, 13, 23, 1)), Error);
  CHECK_THROWS_AS(model.loss(random_ids(1, 3, 23, 1), random_ids(1, 4, 23, 1)), Error);
  CHECK_THROWS_AS(model.next_logits(random_ids(1, 3, 99, 1)), Error);
  CHECK_THROWS_AS(model.attention(2), Error);
  nn::LmConfig odd = small();
  odd.vocab = 0;
  CHECK_THROWS_AS(nn::TransformerLm{odd}, Error);
}

GPU_TEST_CASE("lm: on a GPU, recorded or not, the loss and the gradients are the CPU's") {
  nn::LmConfig config = small("rpc");
  config.pre_norm = false;
  config.dropout = config.activation_dropout = config.output_dropout = 0.1;
  config.cutoffs = {7, 15};
  config.output_bias = true;
  const Tensor ids = random_ids(2, 12, 23, 3), labels = random_ids(2, 12, 23, 4);
  labels.data<int32_t>()[5] = -1;
  struct Result {
    double loss;
    std::vector<double> grads;
  };
  const auto run = [&](Device device, bool recorded) {
    nn::TransformerLm model(config);
    fill(model);
    model.to(device);
    nn::FlatParameters flat(model.parameters(), nn::decays_by_timm);
    model.set_training(true);
    const Tensor x = ids.to(device), y = labels.to(device), loss = zeros({}, DType::f32, device);
    const auto work = [&] {
      flat.zero_grad();
      const Tensor value = model.loss(x, y);
      value.backward();
      flat.finish_grad();
      copy_values(loss, value);
    };
    std::unique_ptr<Graph> graph;
    for (uint64_t step = 0; step < 3; ++step) {
      model.set_step(9, step);
      if (recorded && step == 1) graph = std::make_unique<Graph>(device, work);
      graph ? graph->launch() : work();
    }
    return Result{loss.item(), flat.grads.to_vector()};
  };
  const Result want = run(cpu, false);
  for (const bool recorded : {false, true}) {
    const Result got = run(cuda_device(), recorded);
    CHECK(got.loss == doctest::Approx(want.loss).epsilon(1e-5));
    CHECK(largest_magnitude(want.grads) > 0);
    CHECK(largest_difference(got.grads, want.grads) <= 1e-4 * largest_magnitude(want.grads));
  }
}
