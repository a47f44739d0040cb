#pragma once
#include "engine/tensor.h"

namespace pursuit::nn {

// Where a layer's noise (dropout, drop path) comes from: a Philox stream counted from a number on the device,
// see dropout. A step has 1024 streams.
struct Noise {
  uint64_t seed = 0, stream = 0;
  Tensor counter;

  // The noise of a training step is a function of the seed and the step's number alone. On a GPU the number
  // goes to device memory, where also a recorded step finds it.
  void set_step(uint64_t new_seed, uint64_t step, Device device);
  Noise ahead(uint64_t streams) const { return {seed, stream + streams, counter}; }
};

}  // namespace pursuit::nn
