#pragma once
#include <unordered_map>
#include <vector>

#include "engine/distributed/communicator.h"
#include "nn/optim.h"

namespace pursuit::nn {

// Gradients of a model that several ranks train, or one rank with several batches a step: their sum. The flat
// buffer is cut between parameters into slices of about the same size, and each is reduced as soon as
// backward has written its last gradient, from the last parameters to the first: it travels beside the rest
// of the backward pass. A table whose lookups are kept apart (nn/lookups.h) is a slice more, the first:
// backward begins with the output layer that shares it.
class RankGradients {
 public:
  // Both outlive this.
  RankGradients(FlatParameters& flat, distributed::Communicator& ranks, int slices = 4);
  // loss.backward(seed); adds what has arrived to the sum of earlier batches (FlatParameters::zero_sum) and
  // starts its reduction.
  void backward(const Tensor& loss, const Tensor& seed);
  // Until the sum over all batches and ranks is in FlatParameters::grads.
  void wait();

 private:
  struct Slice {
    size_t first, last;  // parameters first to last - 1
    size_t waiting = 0;  // how many of their gradients are still to come in this pass
  };
  void start(const Slice& slice);

  FlatParameters& flat_;
  distributed::Communicator& ranks_;
  std::vector<Slice> slices_;                         // in the order of the backward pass
  std::unordered_map<const Node*, size_t> slice_of_;  // of a leaf
};

}  // namespace pursuit::nn
