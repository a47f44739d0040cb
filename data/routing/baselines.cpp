#include "data/routing/baselines.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "engine/base/error.h"

namespace pursuit::data {

Routes nearest_neighbour(const RoutingInstance& instance, int64_t start) {
  const bool depot = instance.has_depot();
  if (start < 0 || start >= instance.size())
    fail("routing",
         "got a start at node " + std::to_string(start) + " of " + std::to_string(instance.size()));
  std::vector<int64_t> left(instance.nodes.size());
  std::iota(left.begin(), left.end(), 0);
  left.erase(left.begin() + (depot ? 0 : start));

  Routes routes;
  int64_t at = depot ? 0 : start, free = instance.capacity;
  if (!depot) routes.push_back({start});
  while (!left.empty()) {
    auto nearest = left.end();
    double shortest = std::numeric_limits<double>::infinity();
    for (auto i = left.begin(); i != left.end(); ++i) {
      if (depot && instance.demands[size_t(*i)] > free) continue;
      if (const double d = instance.distance(at, *i); d < shortest) shortest = d, nearest = i;
    }
    if (nearest == left.end()) {
      at = 0, free = instance.capacity;
      continue;
    }
    if (depot && at == 0) routes.emplace_back();
    at = *nearest;
    routes.back().push_back(at);
    if (depot) free -= instance.demands[size_t(at)];
    left.erase(nearest);
  }
  return routes;
}

Routes savings(const RoutingInstance& instance) {
  const int64_t n = instance.size();
  if (n > most_nodes_of_savings)
    fail("routing", "got " + std::to_string(n) + " nodes, savings take at most " +
                        std::to_string(most_nodes_of_savings));
  struct Pair {
    double saving;
    int32_t a, b;
  };
  std::vector<Pair> pairs;
  pairs.reserve(size_t((n - 1) * (n - 2) / 2));
  for (int64_t a = 1; a < n; ++a)
    for (int64_t b = a + 1; b < n; ++b)
      pairs.push_back({instance.distance(0, a) + instance.distance(0, b) - instance.distance(a, b),
                       int32_t(a), int32_t(b)});
  std::stable_sort(pairs.begin(), pairs.end(),
                   [](const Pair& x, const Pair& y) { return x.saving > y.saving; });

  Routes routes(static_cast<size_t>(n));  // of each customer; empty ones were joined to others
  std::vector<size_t> route_of(static_cast<size_t>(n));
  std::vector<int64_t> loads(static_cast<size_t>(n));
  for (int64_t a = 1; a < n; ++a) {
    routes[size_t(a)] = {a};
    route_of[size_t(a)] = size_t(a);
    loads[size_t(a)] = instance.has_depot() ? instance.demands[size_t(a)] : 0;
  }
  const int64_t limit = instance.has_depot() ? instance.capacity : 0;
  for (const auto& [saving, a, b] : pairs) {
    // From here on joins would gain nothing; a TSP must become one tour.
    if (instance.has_depot() && saving <= 0) break;
    const size_t i = route_of[size_t(a)], j = route_of[size_t(b)];
    Route &first = routes[i], &second = routes[j];
    if (i == j || loads[i] + loads[j] > limit) continue;
    if (first.front() != a && first.back() != a) continue;
    if (second.front() != b && second.back() != b) continue;
    if (first.back() != a) std::reverse(first.begin(), first.end());
    if (second.front() != b) std::reverse(second.begin(), second.end());
    for (const int64_t node : second) route_of[size_t(node)] = i;
    first.insert(first.end(), second.begin(), second.end());
    second.clear();
    loads[i] += loads[j];
  }
  std::erase_if(routes, [](const Route& route) { return route.empty(); });
  if (!instance.has_depot()) routes[0].insert(routes[0].begin(), 0);
  return routes;
}

}  // namespace pursuit::data
