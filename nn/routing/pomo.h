#pragma once
#include <memory>
#include <vector>

#include "engine/base/random.h"
#include "nn/routing/layer.h"

namespace pursuit::nn {

struct PomoConfig {
  RoutingSizes sizes = {.norm = NodeNormKind::instance};
  int64_t layers = 6;  // of the encoder
  double clip = 10;    // logits lie within +-clip
};

// POMO (Kwon et al. 2020) for the TSP: an encoder of several layers that runs once, and a decoder of one
// attention layer. From every node begins one trajectory, and all N of an instance are made together.
class Pomo : public Module {
 public:
  explicit Pomo(const PomoConfig& config);

  // Tours of nodes [B, N, 2], N at least 3: of every instance and start the nodes in order, [B][N][N].
  struct Tours {
    int64_t batch = 0, nodes = 0;
    std::vector<int64_t> order;   // [B, N, N]
    std::vector<double> lengths;  // [B, N]
    // The sum of the log probabilities of a trajectory's nodes, [B, N]; with autograd where it is on.
    Tensor log_probability;
  };
  // Takes the most probable node, or with `random` a node drawn from the probabilities.
  Tours construct(const Tensor& nodes, Random* random = nullptr) const;

  // REINFORCE with a baseline that an instance's trajectories share: the mean over all trajectories of
  // -(R - mean R) log p with R = -length, the mean R of the instance's own.
  static Tensor loss(const Tours& tours);

  const PomoConfig& config() const { return config_; }

 private:
  PomoConfig config_;
  Linear embed_;
  std::vector<std::unique_ptr<NodeLayer>> encoder_;
  Linear first_, last_, keys_, values_, combine_;
};

// The eight symmetries of the unit square, of points [B, N, 2]: [8 B, N, 2]; symmetry s of instance b is row
// s B + b.
Tensor eight_symmetries(const Tensor& nodes);

}  // namespace pursuit::nn
