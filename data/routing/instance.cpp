#include "data/routing/instance.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/base/error.h"

namespace pursuit::data {

namespace {

constexpr int64_t kMostNodes = 100'000;  // more than TSPLIB's largest instance
constexpr double kLargestCoordinate = 1e9;
constexpr int64_t kLargestCapacity = std::numeric_limits<int64_t>::max() / kMostNodes;  // no load overflows

// TSPLIB's radians of degrees.minutes, with its value of pi.
double geo_radians(double x) {
  const double degrees = std::trunc(x);
  return 3.141592 * (degrees + 5 * (x - degrees) / 3) / 180;
}

double geo_kilometres(Location a, Location b) {
  const double latitude_a = geo_radians(a.x), latitude_b = geo_radians(b.x);
  const double q1 = std::cos(geo_radians(a.y) - geo_radians(b.y)), q2 = std::cos(latitude_a - latitude_b),
               q3 = std::cos(latitude_a + latitude_b);
  // Rounding may take the cosine of equal points a little above 1.
  return 6378.388 * std::acos(std::clamp(0.5 * ((1 + q1) * q2 - (1 - q1) * q3), -1.0, 1.0));
}

std::string text(int64_t n) { return std::to_string(n); }

}  // namespace

double distance(Metric metric, Location a, Location b) {
  const double dx = a.x - b.x, dy = a.y - b.y, squared = dx * dx + dy * dy;
  switch (metric) {
    case Metric::exact:
      return std::sqrt(squared);
    case Metric::euc_2d:
      return std::floor(std::sqrt(squared) + 0.5);
    case Metric::ceil_2d:
      return std::ceil(std::sqrt(squared));
    case Metric::att:
      return std::ceil(std::sqrt(squared / 10));
    case Metric::geo:
      return std::floor(geo_kilometres(a, b) + 1);
  }
  fail("routing", "unknown metric");
}

void check(const RoutingInstance& instance, const std::string& source) {
  const int64_t least = instance.has_depot() ? 2 : 3, nodes = instance.size();
  if (nodes < least || nodes > kMostNodes)
    fail("routing",
         source + ": got " + text(nodes) + " nodes, need " + text(least) + " to " + text(kMostNodes));
  for (const Location& p : instance.nodes)
    if (!(std::abs(p.x) <= kLargestCoordinate && std::abs(p.y) <= kLargestCoordinate))
      fail("routing", source + ": a coordinate is not a number from -1e9 to 1e9");
  if (!instance.has_depot() && instance.demands.empty()) return;
  if (instance.capacity < 1) fail("routing", source + ": the capacity is missing or not positive");
  if (instance.capacity > kLargestCapacity)
    fail("routing", source + ": got a capacity of " + text(instance.capacity) + ", need at most " +
                        text(kLargestCapacity));
  if (instance.demands.size() != instance.nodes.size())
    fail("routing", source + ": got " + text(int64_t(instance.demands.size())) + " demands for " +
                        text(nodes) + " nodes; give one of every node, 0 of the depot");
  if (instance.demands[0] != 0) fail("routing", source + ": the depot has a demand; it must be 0");
  for (const int64_t demand : instance.demands)
    if (demand < 0 || demand > instance.capacity)
      fail("routing", source + ": got a demand of " + text(demand) + ", need 0 to the capacity, " +
                          text(instance.capacity));
}

int64_t load(const RoutingInstance& instance, const Route& route) {
  int64_t sum = 0;
  for (const int64_t node : route) sum += instance.demands[size_t(node)];
  return sum;
}

void verify(const RoutingInstance& instance, const Routes& routes) {
  const int64_t first = instance.has_depot() ? 1 : 0;
  if (!instance.has_depot() && routes.size() != 1)
    fail("routing", "got " + text(int64_t(routes.size())) + " routes, a tour is one");
  std::vector<char> visited(instance.nodes.size());
  for (const Route& route : routes)
    for (const int64_t node : route) {
      if (node < first || node >= instance.size())
        fail("routing", "got a visit to node " + text(node) + ", need " + text(first) + " to " +
                            text(instance.size() - 1));
      if (visited[size_t(node)]++) fail("routing", "node " + text(node) + " is visited twice");
    }
  for (int64_t node = first; node < instance.size(); ++node)
    if (!visited[size_t(node)]) fail("routing", "node " + text(node) + " is not visited");
  for (size_t i = 0; instance.has_depot() && i < routes.size(); ++i)
    if (const int64_t carried = load(instance, routes[i]); carried > instance.capacity)
      fail("routing", "route " + text(int64_t(i) + 1) + " carries " + text(carried) + ", a vehicle only " +
                          text(instance.capacity));
}

double length(const RoutingInstance& instance, const Routes& routes) {
  double sum = 0;
  for (const Route& route : routes) {
    if (route.empty()) continue;
    for (size_t i = 1; i < route.size(); ++i) sum += instance.distance(route[i - 1], route[i]);
    if (instance.has_depot())
      sum += instance.distance(0, route.front()) + instance.distance(route.back(), 0);
    else
      sum += instance.distance(route.back(), route.front());
  }
  return sum;
}

RoutingInstance uniform_tsp(int64_t nodes, Random& random) {
  RoutingInstance instance;
  for (int64_t i = 0; i < nodes; ++i) {
    const double x = random.uniform();
    instance.nodes.push_back({x, random.uniform()});
  }
  check(instance, "a uniform TSP");
  return instance;
}

RoutingInstance uniform_cvrp(int64_t customers, Random& random) {
  RoutingInstance instance = uniform_tsp(std::max<int64_t>(customers, 2) + 1, random);
  instance.nodes.resize(size_t(customers) + 1);
  instance.demands = {0};
  for (int64_t i = 0; i < customers; ++i) instance.demands.push_back(1 + random.below(9));
  instance.capacity = usual_capacity(customers);
  check(instance, "a uniform CVRP");
  return instance;
}

int64_t usual_capacity(int64_t customers) {
  return customers <= 20    ? 30
         : customers <= 50  ? 40
         : customers <= 100 ? 50
         : customers <= 200 ? 80
         : customers <= 500 ? 100
                            : 250;
}

}  // namespace pursuit::data
