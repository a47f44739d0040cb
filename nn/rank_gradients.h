#pragma once
#include <unordered_map>
#include <vector>

#include "engine/distributed/communicator.h"
#include "nn/optim.h"

namespace pursuit::nn {

// Sums the gradients over ranks, and over the batches of a step. The flat buffer is cut between parameters
// into slices of about equal size, and the all-reduce of each starts as soon as backward has written its last
// gradient, from the last parameters to the first, so that communication overlaps with backward. A table
// whose lookups are kept separate (nn/lookups.h) is an additional slice, the first: backward starts with the
// output layer that shares it.
class RankGradients {
 public:
  // Both arguments must outlive this.
  RankGradients(FlatParameters& flat, distributed::Communicator& ranks, int slices = 4);
  // Runs loss.backward(seed), adds the gradients to the sum of earlier batches (FlatParameters::zero_sum) and
  // starts the reductions.
  void backward(const Tensor& loss, const Tensor& seed);
  // Waits until the sum over all batches and ranks is in FlatParameters::grads.
  void wait();

 private:
  struct Slice {
    size_t first, last;  // parameters first to last - 1
    size_t waiting = 0;  // gradients still to arrive in this pass
  };
  void start(const Slice& slice);

  FlatParameters& flat_;
  distributed::Communicator& ranks_;
  std::vector<Slice> slices_;                         // in the order of backward
  std::unordered_map<const Node*, size_t> slice_of_;  // by leaf
};

}  // namespace pursuit::nn
