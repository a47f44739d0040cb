#include "apps/route/partial.h"

#include <algorithm>
#include <limits>

namespace pursuit::route {

Visits any_sequence(const data::RoutingInstance& instance, const data::Routes& routes, bool turn,
                    Random& random) {
  data::Routes some = routes;
  if (turn) std::reverse(some.begin(), some.end());
  for (data::Route& route : some)
    if (random.flip()) std::reverse(route.begin(), route.end());
  const auto rotate = [&](auto& v) {
    std::rotate(v.begin(), v.begin() + random.below(int64_t(v.size())), v.end());
  };
  instance.has_depot() ? rotate(some) : rotate(some[0]);
  Visits visits;
  for (const data::Route& route : some)
    for (size_t i = 0; i < route.size(); ++i) visits.push_back({route[i], instance.has_depot() && i == 0});
  return visits;
}

data::Routes to_routes(const data::RoutingInstance& instance, const Visits& visits) {
  data::Routes routes;
  for (const auto& [node, via_depot] : visits) {
    if (routes.empty() || (instance.has_depot() && via_depot)) routes.emplace_back();
    routes.back().push_back(node);
  }
  return routes;
}

int64_t free_after(const data::RoutingInstance& instance, const Visits& visits, size_t i) {
  int64_t free = instance.capacity;
  for (;; --i) {
    free -= instance.demands[size_t(visits[i].node)];
    if (visits[i].via_depot || i == 0) return free;
  }
}

Tensor routing_features(std::span<const data::RoutingInstance* const> instances) {
  if (instances.empty()) fail("routing", "got no instances");
  const int64_t nodes = instances[0]->size();
  const bool depot = instances[0]->has_depot();
  std::vector<float> values;
  for (const data::RoutingInstance* instance : instances) {
    if (instance->size() != nodes || instance->has_depot() != depot)
      fail("routing", "a batch has instances of different sizes, or with and without a depot");
    double least = 0, largest = 1;
    const auto outside = [](const data::Location& p) {
      return std::min(p.x, p.y) < 0 || std::max(p.x, p.y) > 1;
    };
    if (std::any_of(instance->nodes.begin(), instance->nodes.end(), outside)) {
      least = std::numeric_limits<double>::infinity(), largest = -least;
      for (const data::Location& p : instance->nodes) {
        least = std::min({least, p.x, p.y});
        largest = std::max({largest, p.x, p.y});
      }
    }
    const double scale = largest > least ? 1 / (largest - least) : 1;
    for (size_t i = 0; i < instance->nodes.size(); ++i) {
      values.push_back(float((instance->nodes[i].x - least) * scale));
      values.push_back(float((instance->nodes[i].y - least) * scale));
      if (depot) values.push_back(float(double(instance->demands[i]) / double(instance->capacity)));
    }
  }
  return from_vector(values, {int64_t(instances.size()), nodes, depot ? 3 : 2});
}

Tensor routing_features(std::span<const data::RoutingInstance> instances) {
  std::vector<const data::RoutingInstance*> all;
  for (const data::RoutingInstance& instance : instances) all.push_back(&instance);
  return routing_features(all);
}

nn::VehicleLoads vehicle_loads(std::span<const data::RoutingInstance> instances) {
  nn::VehicleLoads loads;
  for (const data::RoutingInstance& instance : instances) {
    if (!instance.has_depot()) continue;
    loads.demands.insert(loads.demands.end(), instance.demands.begin(), instance.demands.end());
    loads.capacities.push_back(instance.capacity);
  }
  return loads;
}

Tensor PartialBatch::loss(const nn::Lehd& model) const {
  return cross_entropy(model.step_logits(nodes, step, load), labels);
}

PartialBatch draw_partial(std::span<const data::SolvedInstance> solved, int64_t batch, Random& random) {
  const bool depot = solved[0].instance.has_depot();
  const int64_t visited = solved[0].instance.size() - depot;
  // Of a window of w nodes a TSP gives the first and the last, and the last but one leaves no choice; a CVRP
  // gives the first, and has at any other customer the choice of the way.
  const int64_t given = depot ? 1 : 3, least = given + 1;
  if (visited < least)
    fail("routing", "got instances of " + std::to_string(visited) + " nodes to visit, need at least " +
                        std::to_string(least));
  int64_t window = least, pair = random.below((visited - given) * (visited - given + 1) / 2);
  for (; pair >= window - given; ++window) pair -= window - given;

  PartialBatch drawn;
  drawn.step = pair + depot;  // customers count from 1, after the depot
  std::vector<const data::RoutingInstance*> instances;
  std::vector<int64_t> rows, labels;
  std::vector<float> loads;
  const int64_t remaining = window - drawn.step;  // CVRP
  for (int64_t b = 0; b < batch; ++b) {
    const data::SolvedInstance& s = solved[size_t(random.below(int64_t(solved.size())))];
    instances.push_back(&s.instance);
    const Visits visits = any_sequence(s.instance, s.routes, random.flip(), random);
    const size_t begin = size_t(visited - window), at = begin + size_t(pair);
    if (depot) {
      rows.push_back(b * (visited + 1));
      loads.push_back(float(double(free_after(s.instance, visits, at)) / double(s.instance.capacity)));
    }
    for (size_t i = begin; i < visits.size(); ++i) rows.push_back(b * (visited + depot) + visits[i].node);
    labels.push_back(visits[at + 1].via_depot ? remaining : 0);
  }
  const Tensor features = routing_features(instances);
  drawn.nodes = embedding(from_vector(rows, {batch, window + depot}),
                          features.reshape({batch * (visited + depot), features.size(2)}));
  if (depot) drawn.load = from_vector(loads, {batch, 1, 1});
  drawn.labels = from_vector(labels, {batch});
  return drawn;
}

}  // namespace pursuit::route
