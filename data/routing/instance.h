#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/choice.h"
#include "engine/base/random.h"

// Routing: the travelling salesman problem (TSP) and vehicle routing with capacities (CVRP).
namespace pursuit::data {

struct Location {
  double x = 0, y = 0;
};

// The distance of two nodes. All but `exact` are whole numbers, rounded as TSPLIB (Reinelt 1995) says.
enum class Metric {
  exact,    // Euclidean
  euc_2d,   // Euclidean, to the nearest
  ceil_2d,  // Euclidean, rounded up
  att,      // pseudo-Euclidean: sqrt of a tenth of the square, rounded up
  geo       // kilometres on the earth; x is the latitude and y the longitude, as degrees.minutes
};
inline std::vector<Choice<Metric>> choices_of(Metric) {
  return {{"exact", Metric::exact},
          {"EUC_2D", Metric::euc_2d},
          {"CEIL_2D", Metric::ceil_2d},
          {"ATT", Metric::att},
          {"GEO", Metric::geo}};
}
double distance(Metric metric, Location a, Location b);

struct RoutingInstance {
  std::string name;
  std::vector<Location> nodes;  // of a CVRP node 0 is the depot
  // CVRP: the demand of every node, the depot's 0, and what a vehicle carries. TSP: empty and 0.
  std::vector<int64_t> demands = {};
  int64_t capacity = 0;
  Metric metric = Metric::exact;

  bool has_depot() const { return capacity > 0; }
  int64_t size() const { return int64_t(nodes.size()); }
  double distance(int64_t a, int64_t b) const {
    return data::distance(metric, nodes[size_t(a)], nodes[size_t(b)]);
  }
};

// A solution. TSP: one route, which visits all nodes and is closed. CVRP: the customers of each route, which
// begins and ends at the depot.
using Route = std::vector<int64_t>;
using Routes = std::vector<Route>;

// Throws an Error that begins with `source` unless there are 3 nodes (CVRP: 2) to 100,000, all numbers are
// finite, no demand is negative or larger than the capacity, and the demands of so many nodes fit 63 bits.
void check(const RoutingInstance& instance, const std::string& source);
// Throws Error unless `routes` visits every node (CVRP: customer) once and no load exceeds the capacity.
void verify(const RoutingInstance& instance, const Routes& routes);
// The sum over the routes, of which nothing is checked.
double length(const RoutingInstance& instance, const Routes& routes);
int64_t load(const RoutingInstance& instance, const Route& route);

// Nodes uniform in the unit square. Demands are uniform in 1 to 9, the capacity is `usual_capacity` (Kool et
// al. 2019; Luo et al. 2023): 30, 40, 50, 80, 100, 250 for at most 20, 50, 100, 200, 500, 1000 customers.
RoutingInstance uniform_tsp(int64_t nodes, Random& random);
RoutingInstance uniform_cvrp(int64_t customers, Random& random);
int64_t usual_capacity(int64_t customers);

}  // namespace pursuit::data
