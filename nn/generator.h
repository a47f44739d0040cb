#pragma once
#include "engine/base/streams.h"
#include "engine/ops.h"

namespace pursuit::nn {

// Dropout at one place of a model in one step; rate 0 is the identity.
struct Dropout {
  double rate = 0;
  uint64_t seed = 0, stream = 0;
  Tensor counter = {};
  Tensor operator()(const Tensor& x) const { return dropout(x, rate, seed, stream, counter); }
};

// Random numbers of a step (dropout, drop path, erasing): Philox streams (engine/base/streams.h), offset by a
// counter in device memory, see dropout.
struct Generator {
  uint64_t seed = 0, stream = 0;
  Tensor counter;

  // The numbers a sample draws depend only on the seed, the step and the sample's place in the step: batch
  // `batch` follows the earlier batches of the step, which have the same size. On a GPU the counters are in
  // device memory, where a captured step reads them too.
  void set_step(uint64_t new_seed, uint64_t step, uint64_t batch, Device device);
  // The step's stream i of `draws` (a range of streams::step).
  uint64_t of(const streams::Range& draws, uint64_t i = 0) const { return stream + draws.at(i); }
  Dropout dropout(double rate, const streams::Range& draws, uint64_t i = 0) const {
    return {rate, seed, of(draws, i), counter};
  }
  Generator ahead(uint64_t streams) const { return {seed, stream + streams, counter}; }
};

}  // namespace pursuit::nn
