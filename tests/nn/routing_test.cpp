#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "data/routing/local_search.h"
#include "engine/ops.h"
#include "engine/solve/gradcheck.h"
#include "nn/init.h"
#include "nn/optim.h"
#include "nn/routing/partial.h"
#include "nn/routing/pomo.h"
#include "nn/routing/solve.h"
#include "tests/message_of.h"

using namespace pursuit;

namespace {

constexpr nn::NodeNormKind kNorms[] = {nn::NodeNormKind::none, nn::NodeNormKind::batch,
                                       nn::NodeNormKind::instance};
constexpr float kInf = std::numeric_limits<float>::infinity();

nn::LehdConfig small(bool depot, nn::NodeNormKind norm = nn::NodeNormKind::none) {
  return {{.dim = 16, .heads = 4, .hidden = 24, .norm = norm}, 2, depot};
}

std::vector<data::RoutingInstance> draw(bool depot, int64_t count, int64_t size, uint64_t seed = 1) {
  Random random(seed, 7);
  std::vector<data::RoutingInstance> all;
  for (int64_t i = 0; i < count; ++i)
    all.push_back(depot ? data::uniform_cvrp(size, random) : data::uniform_tsp(size, random));
  return all;
}

double total(const std::vector<data::RoutingInstance>& instances,
             const std::vector<data::Routes>& solutions) {
  double sum = 0;
  for (size_t i = 0; i < instances.size(); ++i) sum += data::length(instances[i], solutions[i]);
  return sum;
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

TEST_CASE("routing: relabelled nodes permute a greedy solution") {
  for (const bool depot : {false, true}) {
    CAPTURE(depot);
    nn::Lehd model(small(depot));
    nn::initialise(model, nn::Init::pytorch, 3);
    const auto instances = draw(depot, 3, 12);
    auto relabelled = instances;
    for (auto& instance : relabelled) {  // all but node 0, where the construction begins
      std::reverse(instance.nodes.begin() + 1, instance.nodes.end());
      if (depot) std::reverse(instance.demands.begin() + 1, instance.demands.end());
    }
    const auto before = nn::greedy(model, instances);
    auto after = nn::greedy(model, relabelled);
    for (size_t i = 0; i < after.size(); ++i)
      for (data::Route& route : after[i])
        for (int64_t& node : route) node = node == 0 ? 0 : instances[i].size() - node;
    CHECK(before == after);
  }
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

TEST_CASE("routing: random re-construct never makes a solution longer") {
  for (const bool depot : {false, true}) {
    CAPTURE(depot);
    nn::Lehd model(small(depot));
    nn::initialise(model, nn::Init::pytorch, 7);
    const auto instances = draw(depot, 4, 12);
    auto solutions = nn::greedy(model, instances);
    const double before = total(instances, solutions);
    Random random(0, 0);
    for (int i = 0; i < 25; ++i) {
      const auto last = solutions;
      nn::reconstruct(model, instances, solutions, random);
      for (size_t k = 0; k < instances.size(); ++k) {
        data::verify(instances[k], solutions[k]);
        CHECK(data::length(instances[k], solutions[k]) <= data::length(instances[k], last[k]));
      }
    }
    // An untrained model finds something better in small windows now and then.
    CHECK(total(instances, solutions) < before);
  }
}

TEST_CASE("routing: partial solutions are cut out of whole ones") {
  for (const bool depot : {false, true}) {
    CAPTURE(depot);
    std::vector<data::SolvedInstance> solved;
    Random random(0, 1);
    for (const auto& instance : draw(depot, 3, 10))
      solved.push_back({instance, data::local_search(instance, 20, random)});
    for (int i = 0; i < 20; ++i) {
      const nn::Visits visits = nn::any_sequence(solved[0].instance, solved[0].routes, i % 2, random);
      const data::Routes routes = nn::to_routes(solved[0].instance, visits);
      data::verify(solved[0].instance, routes);
      CHECK(data::length(solved[0].instance, routes) ==
            doctest::Approx(data::length(solved[0].instance, solved[0].routes)));
    }
    std::set<std::pair<int64_t, int64_t>> seen;
    int64_t via_depot = 0;
    for (int i = 0; i < 200; ++i) {
      const nn::PartialBatch batch = nn::draw_partial(solved, 4, random);
      const int64_t rows = batch.nodes.size(1), remaining = rows - batch.step - (depot ? 1 : 2);
      CHECK(remaining >= (depot ? 1 : 2));
      seen.insert({rows, batch.step});
      const std::vector<double> nodes = batch.nodes.to_vector(), labels = batch.labels.to_vector();
      for (int64_t b = 0; b < 4; ++b) {
        CHECK((labels[size_t(b)] == 0 || (depot && labels[size_t(b)] == double(remaining))));
        via_depot += labels[size_t(b)] != 0;
        if (!depot) continue;
        // Who goes directly has room for the next customer.
        const double demand = nodes[size_t((b * rows + batch.step + 1) * 3 + 2)];
        const double load = batch.load.to_vector()[size_t(b)];
        CHECK((load >= 0 && load < 1 && (labels[size_t(b)] != 0 || demand <= load + 1e-6)));
      }
    }
    // Of 10 nodes 1 + 2 + ... + 7 pairs of window and step, of 10 customers 1 + ... + 9.
    CHECK(seen.size() == (depot ? 45 : 28));
    CHECK((via_depot > 0) == depot);
  }
}

TEST_CASE("routing: LEHD learns the tours it is shown") {
  Random random(1, 1);
  std::vector<data::SolvedInstance> solved;
  for (const auto& instance : draw(false, 200, 8, 2))
    solved.push_back({instance, data::local_search(instance, 10, random)});
  const auto test = draw(false, 40, 8, 3);
  double labels = 0;
  for (const auto& instance : test)
    labels += data::length(instance, data::local_search(instance, 10, random));
  nn::Lehd model({{.dim = 32, .heads = 4, .hidden = 64}, 2, false});
  nn::initialise(model, nn::Init::pytorch, 0);
  nn::FlatParameters flat(model);
  nn::Optimizer optimizer(flat, {.weight_decay = 0});
  const double before = total(test, nn::greedy(model, test)) / labels - 1;
  for (int step = 0; step < 150; ++step) {
    optimizer.zero_grad();
    nn::draw_partial(solved, 32, random).loss(model).backward();
    optimizer.step(2e-3);
  }
  const double after = total(test, nn::greedy(model, test)) / labels - 1;
  CAPTURE(before);
  CHECK(after < 0.15);
  CHECK(after < 0.4 * before);
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

TEST_CASE("routing: POMO's starts, symmetries and baseline") {
  const Tensor eight = nn::eight_symmetries(from_vector<float>({0.1F, 0.3F}, {1, 1, 2}));
  const std::vector<double> expected = {0.1, 0.3, 0.1, 0.7, 0.9, 0.3, 0.9, 0.7,
                                        0.3, 0.1, 0.3, 0.9, 0.7, 0.1, 0.7, 0.9};
  const std::vector<double> got = eight.to_vector();
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(expected[i]));

  nn::Pomo model({{.dim = 16, .heads = 4, .hidden = 24, .norm = nn::NodeNormKind::instance}, 1});
  nn::initialise(model, nn::Init::pytorch, 9);
  const auto instances = draw(false, 5, 9);
  double single = 0, best = 0, augmented = 0;
  for (size_t i = 0; const nn::PomoSolution& s : nn::greedy(model, instances, true)) {
    const auto& instance = instances[i++];
    for (const data::Routes* routes : {&s.single, &s.best, &s.augmented}) data::verify(instance, *routes);
    const double a = data::length(instance, s.single), b = data::length(instance, s.best),
                 c = data::length(instance, s.augmented);
    CHECK((a >= b && b >= c));
    single += a, best += b, augmented += c;
  }
  CHECK(single > best);
  CHECK(best > augmented);

  // -(R - mean R) log p of two trajectories: R = -3, -1, mean -2.
  nn::Pomo::Tours tours{1, 2, {}, {3, 1}, from_vector<float>({-0.5F, -2}, {1, 2})};
  CHECK(nn::Pomo::loss(tours).item() == doctest::Approx((-0.5 + 2) / 2));
}

TEST_CASE("routing: POMO learns from its own tours") {
  nn::Pomo model({{.dim = 32, .heads = 4, .hidden = 64}, 2});
  nn::initialise(model, nn::Init::pytorch, 1);
  nn::FlatParameters flat(model);
  nn::Optimizer optimizer(flat, {.weight_decay = 0});
  const auto test = draw(false, 40, 8, 3);
  const auto mean_single = [&] {
    double sum = 0;
    for (size_t i = 0; const nn::PomoSolution& s : nn::greedy(model, test, false))
      sum += data::length(test[i++], s.single) / double(test.size());
    return sum;
  };
  const double before = mean_single();
  Random random(3, 3);
  for (uint64_t step = 0; step < 60; ++step) {
    optimizer.zero_grad();
    nn::Pomo::loss(model.construct(uniform({32, 8, 2}, 0, 1, 1, step), &random)).backward();
    optimizer.step(3e-3);
  }
  CAPTURE(before);
  CHECK(mean_single() < 0.92 * before);
}
