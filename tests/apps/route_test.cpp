#include "apps/route/route.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "apps/route/instances.h"
#include "apps/route/partial.h"
#include "apps/route/solve.h"
#include "data/routing/local_search.h"
#include "engine/ops.h"
#include "nn/init.h"
#include "nn/optim.h"
#include "tests/temporary_folder.h"

using namespace pursuit;

namespace {

nn::LehdConfig small(bool depot) { return {{.dim = 16, .heads = 4, .hidden = 24}, 2, depot}; }

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

}  // namespace

TEST_CASE("route: files that differ in demands, metric or solutions have other fingerprints") {
  const TemporaryFolder folder;
  const auto fingerprint_of = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder.file(name)) << text;
    return route::read_instances(folder.file(name), 0, 0).fingerprint;
  };
  const auto cvrp = [](const std::string& metric, const std::string& demands) {
    return "TYPE : CVRP\nDIMENSION : 3\nCAPACITY : 10\nEDGE_WEIGHT_TYPE : " + metric +
           "\nNODE_COORD_SECTION\n1 0 0\n2 1 0\n3 2 0\nDEMAND_SECTION\n1 0\n" + demands +
           "DEPOT_SECTION\n1\n-1\nEOF\n";
  };
  const std::set<std::string> seen = {fingerprint_of("a.vrp", cvrp("EUC_2D", "2 4\n3 5\n")),
                                      fingerprint_of("b.vrp", cvrp("EUC_2D", "2 5\n3 4\n")),
                                      fingerprint_of("c.vrp", cvrp("CEIL_2D", "2 4\n3 5\n")),
                                      fingerprint_of("a.txt", "0 0 1 0 1 1 0 1 output 1 2 3 4 1\n"),
                                      fingerprint_of("b.txt", "0 0 1 0 1 1 0 1 output 1 4 3 2 1\n")};
  CHECK(seen.size() == 5);
}

TEST_CASE("route: relabelled nodes permute a greedy solution") {
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
    const auto before = route::greedy(model, instances);
    auto after = route::greedy(model, relabelled);
    for (size_t i = 0; i < after.size(); ++i)
      for (data::Route& route : after[i])
        for (int64_t& node : route) node = node == 0 ? 0 : instances[i].size() - node;
    CHECK(before == after);
  }
}

TEST_CASE("route: random re-construct never makes a solution longer") {
  for (const bool depot : {false, true}) {
    CAPTURE(depot);
    nn::Lehd model(small(depot));
    nn::initialise(model, nn::Init::pytorch, 7);
    const auto instances = draw(depot, 4, 12);
    auto solutions = route::greedy(model, instances);
    const double before = total(instances, solutions);
    Random random(0, 0);
    for (int i = 0; i < 25; ++i) {
      const auto last = solutions;
      route::reconstruct(model, instances, solutions, random);
      for (size_t k = 0; k < instances.size(); ++k) {
        data::verify(instances[k], solutions[k]);
        CHECK(data::length(instances[k], solutions[k]) <= data::length(instances[k], last[k]));
      }
    }
    // An untrained model finds something better in small windows now and then.
    CHECK(total(instances, solutions) < before);
  }
}

TEST_CASE("route: a construction is ended at any node") {
  for (const bool depot : {false, true}) {
    CAPTURE(depot);
    nn::Lehd model(small(depot));
    nn::initialise(model, nn::Init::pytorch, 5);
    const auto instances = draw(depot, 2, 12);
    std::vector<int64_t> asked;
    const auto ends_at = [&](int64_t last) {
      asked.clear();
      return [&asked, last](int64_t nodes) { return asked.push_back(nodes), nodes < last; };
    };
    CHECK(route::greedy(model, instances, ends_at(4)).empty());
    CHECK(asked == std::vector<int64_t>{0, 1, 2, 3, 4});
    auto solutions = route::greedy(model, instances, ends_at(100));
    CHECK(solutions == route::greedy(model, instances));
    CHECK(asked.size() == (depot ? 12 : 11));  // a tour begins at node 0

    const auto before = solutions;
    Random random(0, 0);
    for (int i = 0; i < 10; ++i) {
      CHECK(!route::reconstruct(model, instances, solutions, random, ends_at(1)));
      CHECK(asked == std::vector<int64_t>{0, 1});
    }
    CHECK(solutions == before);
    CHECK(route::reconstruct(model, instances, solutions, random, ends_at(100)));
  }
}

TEST_CASE("route: decoding counts all nodes, and ends where it is told") {
  route::Model model({.sizes = {.dim = 16, .heads = 4, .hidden = 24}, .layers = 1});
  nn::initialise(model, nn::Init::pytorch, 5);
  route::Instances some;
  for (const int64_t size : {9, 6})
    for (const auto& instance : draw(false, 3, size)) some.all.push_back({instance});
  const route::Decoding how = {.rrc = {1, 4}};
  CHECK(route::nodes_of(some, how) == 5 * 3 * (9 + 6));
  std::vector<int64_t> told;
  const auto decode = [&](int64_t end) {
    told.clear();
    return route::decode(model, some, 2, how,
                         [&](int64_t nodes) { return told.push_back(nodes), nodes < end; });
  };
  CHECK(decode(225).size() == 3);  // the last word comes too late
  CHECK(std::is_sorted(told.begin(), told.end()));
  CHECK((told.front() == 0 && told.back() == 225));
  CHECK(decode(20).empty());
  CHECK(std::count_if(told.begin(), told.end(), [](int64_t nodes) { return nodes >= 20; }) == 1);
}

TEST_CASE("route: partial solutions are cut out of whole ones") {
  for (const bool depot : {false, true}) {
    CAPTURE(depot);
    std::vector<data::SolvedInstance> solved;
    Random random(0, 1);
    for (const auto& instance : draw(depot, 3, 10))
      solved.push_back({instance, data::local_search(instance, 20, random)});
    for (int i = 0; i < 20; ++i) {
      const route::Visits visits = route::any_sequence(solved[0].instance, solved[0].routes, i % 2, random);
      const data::Routes routes = route::to_routes(solved[0].instance, visits);
      data::verify(solved[0].instance, routes);
      CHECK(data::length(solved[0].instance, routes) ==
            doctest::Approx(data::length(solved[0].instance, solved[0].routes)));
    }
    std::set<std::pair<int64_t, int64_t>> seen;
    int64_t via_depot = 0;
    for (int i = 0; i < 200; ++i) {
      const route::PartialBatch batch = route::draw_partial(solved, 4, random);
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

TEST_CASE("route: LEHD learns the tours it is shown") {
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
  const double before = total(test, route::greedy(model, test)) / labels - 1;
  for (int step = 0; step < 150; ++step) {
    optimizer.zero_grad();
    route::draw_partial(solved, 32, random).loss(model).backward();
    optimizer.step(2e-3);
  }
  const double after = total(test, route::greedy(model, test)) / labels - 1;
  CAPTURE(before);
  CHECK(after < 0.15);
  CHECK(after < 0.4 * before);
}

TEST_CASE("route: more starts and symmetries are never worse") {
  for (const bool depot : {false, true}) {
    nn::Pomo model({.sizes = {.dim = 16, .heads = 4, .hidden = 24, .norm = nn::NodeNormKind::instance},
                    .layers = 1,
                    .depot = depot});
    nn::initialise(model, nn::Init::pytorch, 9);
    const auto instances = draw(depot, 5, 9);
    double single = 0, best = 0, augmented = 0;
    for (size_t i = 0; const route::PomoSolution& s : route::greedy(model, instances, true)) {
      const auto& instance = instances[i++];
      for (const data::Routes* routes : {&s.single, &s.best, &s.augmented}) data::verify(instance, *routes);
      const double a = data::length(instance, s.single), b = data::length(instance, s.best),
                   c = data::length(instance, s.augmented);
      CHECK((a >= b && b >= c));
      single += a, best += b, augmented += c;
    }
    CHECK(single > best);
    CHECK(best > augmented);
  }
}

TEST_CASE("route: POMO learns from its own solutions") {
  for (const bool depot : {false, true}) {
    nn::Pomo model({.sizes = {.dim = 32, .heads = 4, .hidden = 64}, .layers = 2, .depot = depot});
    nn::initialise(model, nn::Init::pytorch, 1);
    nn::FlatParameters flat(model);
    nn::Optimizer optimizer(flat, {.weight_decay = 0});
    const auto test = draw(depot, 40, 8, 3);
    const auto mean_single = [&] {
      double sum = 0;
      for (size_t i = 0; const route::PomoSolution& s : route::greedy(model, test, false))
        sum += data::length(test[i++], s.single) / double(test.size());
      return sum;
    };
    const double before = mean_single();
    Random random(3, 3);
    for (uint64_t step = 0; step < 60; ++step) {
      const auto drawn = draw(depot, 32, 8, 100 + step);
      optimizer.zero_grad();
      nn::Pomo::loss(model.construct(route::routing_features(drawn), &random, route::vehicle_loads(drawn)))
          .backward();
      optimizer.step(3e-3);
    }
    CAPTURE(before);
    CHECK(mean_single() < 0.92 * before);
  }
}
