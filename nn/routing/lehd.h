#pragma once
#include <memory>
#include <vector>

#include "nn/routing/layer.h"

namespace pursuit::nn {

struct LehdConfig {
  RoutingSizes sizes;
  int64_t layers = 6;  // of the decoder
  bool depot = false;  // CVRP
};

// LEHD (Luo et al. 2023): one encoder layer, and a decoder of several that runs again at every step of the
// construction, over the destination, the nodes that remain and the current one. Equivariant to permutations
// of the remaining nodes: it has neither positions nor masks.
class Lehd : public Module {
 public:
  explicit Lehd(const LehdConfig& config);

  // Nodes [B, N, 2 (x, y) or, CVRP, 3 (x, y, demand / capacity)] to rows [B, N, dim].
  Tensor encode(const Tensor& nodes) const;
  // One step of the construction. `destination` and `current` [B, 1, dim] and `remaining` [B, m, dim] are
  // rows of `encode`; CVRP: the destination is the depot's, and `load` [B, 1, 1] the free share of the
  // capacity. The result are logits [B, m] of the next node; CVRP: [B, 2 m], of going there directly and via
  // the depot.
  Tensor decode(const Tensor& destination, const Tensor& remaining, const Tensor& current,
                const Tensor& load = {}) const;

  // Logits of step `step` of known paths, for training. TSP: nodes [B, w, 2] in the order of the path, the
  // last is the destination; at node `step`, the nodes step + 1 to w - 2 remain. CVRP: nodes [B, 1 + w, 3],
  // the depot first; at customer `step` (from 1), those after it remain. So the next node is the first of
  // the remaining: the label is 0, or m via the depot.
  Tensor step_logits(const Tensor& nodes, int64_t step, const Tensor& load = {}) const;

  const LehdConfig& config() const { return config_; }

 private:
  LehdConfig config_;
  Linear embed_;
  NodeLayer encoder_;
  Linear destination_, current_;
  std::vector<std::unique_ptr<NodeLayer>> decoder_;
  Linear out_;
};

}  // namespace pursuit::nn
