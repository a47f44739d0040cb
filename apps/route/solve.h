#pragma once
#include <functional>
#include <span>
#include <vector>

#include "data/routing/instance.h"
#include "nn/routing/lehd.h"
#include "nn/routing/pomo.h"

// Solutions of instances by trained models. All instances of a call have the same number of nodes. Nothing
// here has a gradient, and every solution is verified.
namespace pursuit::route {

using RoutingInstances = std::span<const data::RoutingInstance>;

// Asked before LEHD chooses a node, with the number of nodes that it chose; false ends the call.
using GoesOn = std::function<bool(int64_t nodes)>;
inline bool always(int64_t) { return true; }

// Always the most probable node; begins at node 0 (CVRP: the depot). Returns nothing if it was ended.
std::vector<data::Routes> greedy(const nn::Lehd& model, RoutingInstances instances,
                                 const GoesOn& goes_on = always);

// Random re-construct (Luo et al. 2023, section 5), one iteration: every solution is turned round with
// probability 1/2 (CVRP: and each route), a window of at least 4 nodes, as many in all, is cut at random,
// and the model fills it greedily between its first node and its last (CVRP: up to the end of a route). What
// is shorter replaces the solution, so no length ever grows. Below 4 nodes or customers nothing happens.
// Returns false, with the solutions as they were, if it was ended.
bool reconstruct(const nn::Lehd& model, RoutingInstances instances, std::vector<data::Routes>& solutions,
                 Random& random, const GoesOn& goes_on = always);

// Of every instance the solution that begins at node 0 (CVRP: goes to customer 1 first), the best of all
// starts, and with `augment` the best of the starts of all eight symmetries.
struct PomoSolution {
  data::Routes single, best, augmented;
};
std::vector<PomoSolution> greedy(const nn::Pomo& model, RoutingInstances instances, bool augment);

}  // namespace pursuit::route
