#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "engine/ops.h"
#include "engine/solve/gradcheck.h"
#include "nn/init.h"
#include "nn/routing/lehd.h"
#include "nn/routing/pomo.h"
#include "tests/message_of.h"

using namespace pursuit;

namespace {

constexpr nn::NodeNormKind kNorms[] = {nn::NodeNormKind::none, nn::NodeNormKind::batch,
                                       nn::NodeNormKind::instance};
constexpr float kInf = std::numeric_limits<float>::infinity();

nn::LehdConfig small(bool depot, nn::NodeNormKind norm = nn::NodeNormKind::none) {
  return {{.dim = 16, .heads = 4, .hidden = 24, .norm = norm}, 2, depot};
}

std::map<std::string, Tensor> by_name(const nn::Module& model) {
  std::map<std::string, Tensor> all;
  for (const nn::NamedTensor& p : model.parameters()) all[p.name] = p.tensor->detach();
  return all;
}

// Layer `name` by plain operators; `mask` [keys] is added to the scores.
Tensor plain_layer(const std::map<std::string, Tensor>& p, const std::string& name, const Tensor& x,
                   const Tensor& mask, int64_t heads) {
  const int64_t b = x.size(0), n = x.size(1), dim = x.size(2), d = dim / heads;
  const Tensor qkv =
      linear(x, p.at(name + ".qkv.weight")).reshape({b, n, 3, heads, d}).permute({2, 0, 3, 1, 4});
  const Tensor scores =
      matmul(qkv.select(0, 0), qkv.select(0, 1).permute({0, 1, 3, 2})) / std::sqrt(double(d));
  const Tensor mixed =
      matmul(softmax(scores + mask), qkv.select(0, 2)).permute({0, 2, 1, 3}).reshape({b, n, dim});
  const Tensor h = x + linear(mixed, p.at(name + ".proj.weight"), p.at(name + ".proj.bias"));
  const Tensor hidden = relu(linear(h, p.at(name + ".mlp.fc1.weight"), p.at(name + ".mlp.fc1.bias")));
  return h + linear(hidden, p.at(name + ".mlp.fc2.weight"), p.at(name + ".mlp.fc2.bias"));
}

}  // namespace

TEST_CASE("routing: numbers of parameters at full size") {
  CHECK(nn::Lehd(nn::LehdConfig{}).parameter_count() == 1415169);
  CHECK(nn::Lehd({.sizes = {}, .depot = true}).parameter_count() == 1415682);
  for (const nn::NodeNormKind norm : {nn::NodeNormKind::batch, nn::NodeNormKind::instance})
    CHECK(nn::Lehd({.sizes = {.norm = norm}}).parameter_count() == 1415169 + 3584);
  CHECK(nn::Pomo(nn::PomoConfig{}).parameter_count() == 1269760);
  CHECK(message_of([] { nn::Lehd({.sizes = {.dim = 10, .heads = 4}}); }).find("heads that divide") !=
        std::string::npos);
}

TEST_CASE("routing: nodes that are removed count as masked keys") {
  for (const bool depot : {false, true}) {
    CAPTURE(depot);
    nn::Lehd model(small(depot));
    nn::initialise(model, nn::Init::pytorch, 4);
    const int64_t n = 9, step = 4, end = depot ? n : n - 1;
    const Tensor nodes = uniform({2, n, depot ? 3 : 2}, 0, 1, 0, 1);
    const Tensor load = depot ? full({2, 1, 1}, 0.4) : Tensor();
    const Tensor removed = model.step_logits(nodes, step, load);

    // All nodes through all layers; of those before `step` no key is seen.
    const auto p = by_name(model);
    const Tensor none = zeros({n});
    const Tensor rows =
        plain_layer(p, "encoder", linear(nodes, p.at("embed.weight"), p.at("embed.bias")), none, 4);
    const auto projected = [&](const std::string& name, int64_t at) {
      const Tensor row = rows.slice(1, at, at + 1);
      return linear(depot ? concat({row, load}, 2) : row, p.at(name + ".weight"), p.at(name + ".bias"));
    };
    Tensor z = concat({projected("destination", depot ? 0 : n - 1), rows.slice(1, depot ? 1 : 0, end),
                       projected("current", step)},
                      1);
    const int64_t hidden = depot ? step : step + 1;  // of the middle rows: the path up to the current node
    std::vector<float> mask(size_t(z.size(1)));
    std::fill_n(mask.begin() + 1, hidden, -kInf);
    for (int i = 0; i < 2; ++i)
      z = plain_layer(p, "decoder." + std::to_string(i), z, from_vector(mask, {z.size(1)}), 4);
    const Tensor masked = linear(z.slice(1, 1 + hidden, z.size(1) - 1), p.at("out.weight"), p.at("out.bias"));
    const std::vector<double> a = removed.to_vector(), b = masked.permute({0, 2, 1}).contiguous().to_vector();
    REQUIRE(a.size() == size_t(2 * (end - step - 1) * (depot ? 2 : 1)));
    REQUIRE(a.size() == b.size());
    // f32 sums of tens of terms of order 1
    for (size_t i = 0; i < a.size(); ++i) CHECK(std::abs(a[i] - b[i]) < 1e-5);
  }
}

TEST_CASE("routing: gradients of LEHD with every norm") {
  for (const nn::NodeNormKind norm : kNorms) {
    CAPTURE(choice_name(norm));
    nn::Lehd model({{.dim = 4, .heads = 2, .hidden = 5, .norm = norm}, 1, false});
    nn::initialise(model, nn::Init::pytorch, 5);
    model.set_training(true);
    std::vector<Tensor> inputs = {uniform({2, 6, 2}, 0, 1, 0, 2)};
    const auto parameters = model.parameters();
    for (const nn::NamedTensor& p : parameters) inputs.push_back(p.tensor->detach());
    const GradientReport report = check_gradient(
        [&](const std::vector<Tensor>& in) {
          for (size_t i = 0; i < parameters.size(); ++i) *parameters[i].tensor = in[i + 1];
          return model.step_logits(in[0], 1);
        },
        inputs, {.atol = 1e-5, .rtol = 1e-5, .max_elements = 6});
    CHECK_MESSAGE(report.ok, report.message);
    CHECK(report.compared > 100);
  }
}

TEST_CASE("routing: POMO's probabilities by the definition") {
  nn::Pomo model({{.dim = 16, .heads = 4, .hidden = 24}, 1});
  nn::initialise(model, nn::Init::pytorch, 8);
  const int64_t n = 6, heads = 4;
  const Tensor nodes = uniform({2, n, 2}, 0, 1, 0, 3);
  Random random(2, 2);
  const NoGrad off;
  const nn::Pomo::Tours tours = model.construct(nodes, &random);
  const auto p = by_name(model);
  const Tensor rows =
      plain_layer(p, "encoder.0", linear(nodes, p.at("embed.weight"), p.at("embed.bias")), zeros({n}), heads);
  int64_t compared = 0;
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t start = 0; start < n; ++start) {
      const Tensor h = rows.select(0, b);
      const int64_t* order = tours.order.data() + (b * n + start) * n;
      CHECK(order[0] == start);
      CHECK(std::set<int64_t>(order, order + n).size() == size_t(n));
      std::vector<float> mask(static_cast<size_t>(n));
      double log_p = 0;
      for (int64_t step = 0; step + 1 < n; ++step) {
        mask[size_t(order[step])] = -kInf;
        const Tensor visited = from_vector(mask, {n});
        const Tensor query = linear(h.slice(0, start, start + 1), p.at("first.weight")) +
                             linear(h.slice(0, order[step], order[step] + 1), p.at("last.weight"));
        const auto by_head = [&](const Tensor& x) { return x.reshape({-1, heads, 4}).permute({1, 0, 2}); };
        const Tensor scores =
            matmul(by_head(query), by_head(linear(h, p.at("keys.weight"))).permute({0, 2, 1})) / 2;
        const Tensor mixed = matmul(softmax(scores + visited), by_head(linear(h, p.at("values.weight"))));
        const Tensor out =
            linear(mixed.permute({1, 0, 2}).reshape({1, 16}), p.at("combine.weight"), p.at("combine.bias"));
        const Tensor logits = tanh(matmul(out, h.permute({1, 0})) / 4) * 10 + visited;
        log_p += log_softmax(logits).to_vector()[size_t(order[step + 1])];
      }
      // f32 logits up to 10
      CHECK(tours.log_probability.to_vector()[size_t(b * n + start)] == doctest::Approx(log_p).epsilon(1e-4));
      ++compared;
    }
  CHECK(compared == 12);
}

TEST_CASE("routing: POMO's symmetries and baseline") {
  const Tensor eight = nn::eight_symmetries(from_vector<float>({0.1F, 0.3F}, {1, 1, 2}));
  const std::vector<double> expected = {0.1, 0.3, 0.1, 0.7, 0.9, 0.3, 0.9, 0.7,
                                        0.3, 0.1, 0.3, 0.9, 0.7, 0.1, 0.7, 0.9};
  const std::vector<double> got = eight.to_vector();
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(expected[i]));

  // -(R - mean R) log p of two trajectories: R = -3, -1, mean -2.
  nn::Pomo::Tours tours{1, 2, {}, {3, 1}, from_vector<float>({-0.5F, -2}, {1, 2})};
  CHECK(nn::Pomo::loss(tours).item() == doctest::Approx((-0.5 + 2) / 2));
}
