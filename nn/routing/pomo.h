#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "engine/base/random.h"
#include "nn/routing/layer.h"
#include "nn/routing/trajectories.h"

namespace pursuit::nn {

struct PomoConfig {
  RoutingSizes sizes = {.norm = NodeNormKind::instance};
  int64_t layers = 6;  // of the encoder
  bool depot = false;  // CVRP
  double clip = 10;    // logits lie within +-clip
};

// POMO (Kwon et al. 2020): an encoder of several layers that runs once, and a decoder of one attention layer,
// whose query is the first node and the last one (TSP), or the last one and the vehicle's free share (CVRP).
// All trajectories of an instance, one from every node or customer, are made together.
class Pomo : public Module {
 public:
  explicit Pomo(const PomoConfig& config);

  // S trajectories an instance: N (TSP) or N - 1 (CVRP).
  struct Tours {
    int64_t batch = 0, starts = 0;
    std::vector<std::vector<int64_t>> orders;  // [B, S], see Trajectories::order
    std::vector<double> lengths;               // [B, S], of the closed tours
    // The sum of the log probabilities of a trajectory's nodes, [B, S]; with autograd where it is on.
    Tensor log_probability;
  };
  // Solutions of nodes [B, N, 2 (x, y)], N at least 3, or of a CVRP with a depot at node 0 [B, N, 3 (x, y,
  // demand / capacity)], N at least 2, on the CPU. Takes the most probable node, or with `random` a node
  // drawn from the probabilities.
  Tours construct(const Tensor& nodes, Random* random = nullptr, const VehicleLoads& loads = {}) const;

  // REINFORCE with a baseline that an instance's trajectories share: the mean over all trajectories of
  // -(R - mean R) log p with R = -length, the mean R of the instance's own.
  static Tensor loss(const Tours& tours);

  const PomoConfig& config() const { return config_; }

 private:
  PomoConfig config_;
  std::optional<Linear> embed_depot_;
  Linear embed_;
  std::vector<std::unique_ptr<NodeLayer>> encoder_;
  std::optional<Linear> first_;
  Linear last_, keys_, values_, combine_;  // last_: CVRP with a column for the free share
};

// The eight symmetries of the unit square, of nodes [B, N, 2 or 3 (x, y, demand)]: [8 B, N, ...]; symmetry s
// of instance b is row s B + b.
Tensor eight_symmetries(const Tensor& nodes);

}  // namespace pursuit::nn
