#pragma once
#include "data/routing/instance.h"

// Classical heuristics: what a learned one has to beat.
namespace pursuit::data {

// From `start` (CVRP: the depot, whatever `start` is) always to the nearest node not yet visited; a vehicle
// to the nearest whose demand it can still carry, and home where there is none.
Routes nearest_neighbour(const RoutingInstance& instance, int64_t start = 0);

// Clarke & Wright 1964, parallel: a route for each customer; then of all pairs of nodes, by falling saving
// d(0, i) + d(0, j) - d(i, j), routes are joined that end at i and j and fit one vehicle. Of a TSP node 0
// acts as the depot, and there is no limit. Needs memory for all pairs.
constexpr int64_t most_nodes_of_savings = 10'000;
Routes savings(const RoutingInstance& instance);

}  // namespace pursuit::data
