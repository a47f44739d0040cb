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
#include "tests/differences.h"
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
  // No projection of the first node (128^2); the free share, demands, and the depot's embedding.
  CHECK(nn::Pomo({.depot = true}).parameter_count() == 1269760 - 16384 + 128 + 128 + 384);
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
    CHECK(largest_difference(a, b) < 1e-5);  // f32 sums of tens of terms of order 1
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

namespace {

// log p of node `next` after the last of `order`, with query [1, dim] and -inf for hidden nodes; rows h [N, dim].
double plain_log_p(const std::map<std::string, Tensor>& p, const Tensor& h, const Tensor& query,
                   const std::vector<float>& hidden, int64_t next) {
  const int64_t heads = 4;
  const Tensor mask = from_vector(hidden, {int64_t(hidden.size())});
  const auto by_head = [&](const Tensor& x) { return x.reshape({-1, heads, 4}).permute({1, 0, 2}); };
  const Tensor scores =
      matmul(by_head(query), by_head(linear(h, p.at("keys.weight"))).permute({0, 2, 1})) / 2;
  const Tensor mixed = matmul(softmax(scores + mask), by_head(linear(h, p.at("values.weight"))));
  const Tensor out =
      linear(mixed.permute({1, 0, 2}).reshape({1, 16}), p.at("combine.weight"), p.at("combine.bias"));
  const Tensor logits = tanh(matmul(out, h.permute({1, 0})) / 4) * 10 + mask;
  return log_softmax(logits).to_vector()[size_t(next)];
}

}  // namespace

TEST_CASE("routing: POMO's probabilities by the definition") {
  nn::Pomo model({{.dim = 16, .heads = 4, .hidden = 24}, 1});
  nn::initialise(model, nn::Init::pytorch, 8);
  const int64_t n = 6;
  const Tensor nodes = uniform({2, n, 2}, 0, 1, 0, 3);
  Random random(2, 2);
  const NoGrad off;
  const nn::Pomo::Tours tours = model.construct(nodes, &random);
  const auto p = by_name(model);
  const Tensor rows =
      plain_layer(p, "encoder.0", linear(nodes, p.at("embed.weight"), p.at("embed.bias")), zeros({n}), 4);
  REQUIRE(tours.orders.size() == 12);
  for (int64_t t = 0; t < 12; ++t) {
    const Tensor h = rows.select(0, t / n);
    const std::vector<int64_t>& order = tours.orders[size_t(t)];
    CHECK(order[0] == t % n);
    CHECK(order.size() == size_t(n));
    CHECK(std::set<int64_t>(order.begin(), order.end()).size() == size_t(n));
    std::vector<float> hidden(static_cast<size_t>(n));
    double log_p = 0;
    for (size_t step = 0; step + 1 < order.size(); ++step) {
      hidden[size_t(order[step])] = -kInf;
      const Tensor query = linear(h.slice(0, order[0], order[0] + 1), p.at("first.weight")) +
                           linear(h.slice(0, order[step], order[step] + 1), p.at("last.weight"));
      log_p += plain_log_p(p, h, query, hidden, order[step + 1]);
    }
    // f32 logits up to 10
    CHECK(tours.log_probability.to_vector()[size_t(t)] == doctest::Approx(log_p).epsilon(1e-4));
  }
}

TEST_CASE("routing: POMO's probabilities of a CVRP by the definition") {
  nn::Pomo model({.sizes = {.dim = 16, .heads = 4, .hidden = 24}, .layers = 1, .depot = true});
  nn::initialise(model, nn::Init::pytorch, 8);
  const int64_t n = 6;
  const nn::VehicleLoads loads{{0, 4, 3, 9, 1, 5, 0, 2, 2, 2, 9, 9}, {10, 12}};
  std::vector<float> values;
  for (const double x : uniform({12, 3}, 0, 1, 0, 4).to_vector()) values.push_back(float(x));
  for (size_t i = 0; i < 12; ++i)
    values[3 * i + 2] = float(loads.demands[i]) / float(loads.capacities[i / 6]);
  const Tensor nodes = from_vector(values, {2, n, 3});
  Random random(2, 2);
  const NoGrad off;
  const nn::Pomo::Tours tours = model.construct(nodes, &random, loads);
  const auto p = by_name(model);
  const Tensor depots =
      linear(nodes.slice(1, 0, 1).slice(2, 0, 2), p.at("embed_depot.weight"), p.at("embed_depot.bias"));
  const Tensor customers = linear(nodes.slice(1, 1, n), p.at("embed.weight"), p.at("embed.bias"));
  const Tensor rows = plain_layer(p, "encoder.0", concat({depots, customers}, 1), zeros({n}), 4);
  REQUIRE(tours.starts == 5);
  REQUIRE(tours.orders.size() == 10);
  int64_t returns = 0;
  for (int64_t t = 0; t < 10; ++t) {
    const int64_t b = t / 5, *demands = loads.demands.data() + b * n, capacity = loads.capacities[size_t(b)];
    const Tensor h = rows.select(0, b);
    const std::vector<int64_t>& order = tours.orders[size_t(t)];
    CHECK(order[0] == 0);
    CHECK(order[1] == 1 + t % 5);
    CHECK(std::set<int64_t>(order.begin(), order.end()).size() == size_t(n));
    std::set<int64_t> open = {1, 2, 3, 4, 5};
    double log_p = 0, length = 0;
    int64_t free = capacity;
    for (size_t step = 0; step < order.size(); ++step) {
      const int64_t at = order[step], next = order[(step + 1) % order.size()];
      length += std::hypot(values[size_t(3 * (b * n + at))] - values[size_t(3 * (b * n + next))],
                           values[size_t(3 * (b * n + at) + 1)] - values[size_t(3 * (b * n + next) + 1)]);
      if (at == 0) free = capacity;
      free -= demands[at];
      CHECK(free >= 0);
      open.erase(at);
      returns += at == 0 && step > 0;
      if (step == 0 || step + 1 == order.size() || open.empty()) continue;
      std::vector<float> hidden(static_cast<size_t>(n), -kInf);
      if (at != 0) hidden[0] = 0;
      for (const int64_t j : open)
        if (demands[j] <= free) hidden[size_t(j)] = 0;
      const Tensor share = full({1, 1}, double(free) / double(capacity));
      const Tensor query = linear(concat({h.slice(0, at, at + 1), share}, 1), p.at("last.weight"));
      log_p += plain_log_p(p, h, query, hidden, next);
    }
    CHECK(tours.log_probability.to_vector()[size_t(t)] == doctest::Approx(log_p).epsilon(1e-4));
    CHECK(tours.lengths[size_t(t)] == doctest::Approx(length).epsilon(1e-6));
  }
  CHECK(returns >= 10);  // 22 of capacity 10, and 24 of capacity 12
  CHECK(message_of([&] { model.construct(nodes, nullptr, {}); }).find("loads belong to a CVRP") !=
        std::string::npos);
  CHECK(message_of([&] {
          model.construct(nodes, nullptr, {{0, 4, 3, 11, 1, 5, 0, 2, 2, 2, 9, 9}, {10, 12}});
        }).find("got demand 11 of node 3") != std::string::npos);
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
