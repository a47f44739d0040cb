#pragma once
#include <span>
#include <vector>

#include "data/routing/instance.h"
#include "data/routing/published.h"
#include "nn/routing/lehd.h"
#include "nn/routing/trajectories.h"

// Partial solutions, from which LEHD learns and which it makes again.
namespace pursuit::route {

// A solution as one sequence: the nodes, and of a CVRP whether the vehicle comes from the depot.
struct Visit {
  int64_t node;
  bool via_depot = false;
};
using Visits = std::vector<Visit>;

// A random sequence of the same length. TSP: begins at any node, in either direction. CVRP: the routes in
// order or, with `turn`, in reverse, each in either direction, and any of them last. So a window at the end
// ends where the vehicle returns to the depot.
Visits any_sequence(const data::RoutingInstance& instance, const data::Routes& routes, bool turn,
                    Random& random);
data::Routes to_routes(const data::RoutingInstance& instance, const Visits& visits);
// CVRP: what the vehicle can still carry after visit i.
int64_t free_after(const data::RoutingInstance& instance, const Visits& visits, size_t i);

// What models see of instances: [B, N, 2 (x, y)], with depots [B, N, 3 (x, y, demand / capacity)].
// Coordinates outside of the unit square are moved and scaled into it, by the least and the largest of both
// axes. All have the same number of nodes.
Tensor routing_features(std::span<const data::RoutingInstance* const> instances);
Tensor routing_features(std::span<const data::RoutingInstance> instances);
// Of the same instances, for POMO.
nn::VehicleLoads vehicle_loads(std::span<const data::RoutingInstance> instances);

// One step of the construction of a batch of partial solutions, see Lehd::step_logits.
struct PartialBatch {
  Tensor nodes, load;
  int64_t step = 0;
  Tensor labels;  // i64 [B]

  Tensor loss(const nn::Lehd& model) const;  // cross-entropy
};
// Draws solved instances of one size, a window of their solutions, and a step in it at which there is a
// choice; all pairs of window and step are as likely. At least 4 nodes, CVRP: 2 customers.
PartialBatch draw_partial(std::span<const data::SolvedInstance> solved, int64_t batch, Random& random);

}  // namespace pursuit::route
