#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

// Solutions under construction, several of every instance, node by node.
namespace pursuit::nn {

// CVRP: what the nodes of a batch of instances need, and what a vehicle carries. TSP: empty.
struct VehicleLoads {
  std::vector<int64_t> demands;     // [B, N], the depot's (node 0) 0
  std::vector<int64_t> capacities;  // [B]

  bool empty() const { return capacities.empty(); }
};

// TSP: N trajectories an instance, one begins at each node. CVRP: N - 1, which go from the depot to each
// customer first; from then on a vehicle returns where it must or wants to.
class Trajectories {
 public:
  // Throws Error unless the loads are of this batch and every customer fits into a vehicle.
  Trajectories(int64_t batch, int64_t nodes, const VehicleLoads& loads);

  int64_t per_instance() const { return loads_.empty() ? nodes_ : nodes_ - 1; }
  int64_t size() const { return int64_t(orders_.size()); }
  int64_t instance(int64_t t) const { return t / per_instance(); }
  // Nodes in order. CVRP: 0, customers, 0, customers ...; zeros may repeat.
  const std::vector<int64_t>& order(int64_t t) const { return orders_[size_t(t)]; }
  int64_t at(int64_t t) const { return orders_[size_t(t)].back(); }
  // CVRP: the share of the capacity that is left.
  float free(int64_t t) const;

  // Whether all nodes of all trajectories were visited. A CVRP's that is ready before others stays at the
  // depot.
  bool finished() const { return open_ == 0; }
  // Whether every trajectory has one node left to go to.
  bool forced() const;
  // [size(), N]: -inf for the nodes to which a trajectory must not go now, else 0.
  const std::vector<float>& hidden() const { return hidden_; }
  // The first node that is not hidden.
  int64_t first_open(int64_t t) const;
  void visit(int64_t t, int64_t node);

 private:
  int64_t nodes_;
  VehicleLoads loads_;
  int64_t open_ = 0;  // nodes not visited, of all trajectories
  std::vector<std::vector<int64_t>> orders_;
  std::vector<int64_t> left_, free_;  // left_: nodes not visited
  std::vector<bool> visited_;
  std::vector<float> hidden_;
};

}  // namespace pursuit::nn
