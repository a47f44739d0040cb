#pragma once
#include "engine/base/streams.h"
#include "engine/ops.h"

namespace pursuit::nn {

// Dropout at one place of a model in one step; a rate of 0 changes nothing.
struct Dropout {
  double rate = 0;
  uint64_t seed = 0, stream = 0;
  Tensor counter = {};
  Tensor operator()(const Tensor& x) const { return dropout(x, rate, seed, stream, counter); }
};

// The random numbers of a step (dropout, drop path, erasing): Philox streams (engine/base/streams.h), counted from
// numbers on the device, see dropout.
struct Generator {
  uint64_t seed = 0, stream = 0;
  Tensor counter;

  // What a sample draws is a function of the seed, the step's number and the sample's place in the step:
  // batch number `batch` of the step holds those behind the batches before it, of the same size. On a GPU the
  // numbers go to device memory, where also a recorded step finds them.
  void set_step(uint64_t new_seed, uint64_t step, uint64_t batch, Device device);
  // The step's stream i of `draws`, one of streams::step.
  uint64_t of(const streams::Range& draws, uint64_t i = 0) const { return stream + draws.at(i); }
  Dropout dropout(double rate, const streams::Range& draws, uint64_t i = 0) const {
    return {rate, seed, of(draws, i), counter};
  }
  Generator ahead(uint64_t streams) const { return {seed, stream + streams, counter}; }
};

}  // namespace pursuit::nn
