#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "apps/bench/network.h"
#include "apps/bench/step_times.h"

namespace pursuit::bench {

// A collective of `ms`. It may start when the backward pass has done its first `ready` ms of work.
struct Collective {
  double ready = 0, ms = 0;
};

struct Replay {
  struct Span {
    double begin, end;
  };
  std::vector<Span> collectives;  // ms since the start of the backward pass
  double backward = 0;            // end of the backward pass
  double end = 0;                 // end of everything
};

// Simulates a backward pass, which alone takes `backward` ms, on one stream, and the collectives in order on
// another. While a collective runs, the backward pass has 1 - contention of its speed.
Replay replay(double backward, const std::vector<Collective>& collectives, double contention);

// A part of the flat buffer of all gradients.
struct Slice {
  int64_t elements = 0;
  double ready = 0;  // of its last gradient, ms since the start of the backward pass
};
// Splits the gradients in their order into `count` slices of equal size; a border may lie in a gradient.
std::vector<Slice> slices(const std::vector<StepTimes::Gradient>& gradients, int count);

struct Exchange {
  int slices = 4;
  int bytes = 4;  // per element sent: 4 (f32) or 2 (bf16, converted before and after)
  double contention = 0.12;
  // Name of an embedding weight that the output layer shares. Its gradient is complete only at the end of
  // backward. If it is named here, the output layer's part of the gradient is an additional first slice, and
  // at the end every rank gathers `rows` (index, row) pairs of each rank and adds the rows itself.
  std::string tied = {};
  int64_t rows = 0, width = 0;
};

struct Exposure {
  double collectives_ms = 0;  // time of the collectives alone
  double bytes = 0;           // input of the collectives per rank
  double exposed_ms = 0;      // by which the step is longer than on one GPU
};
Exposure expose(const StepTimes& step, const Exchange& exchange, const Network& network);

}  // namespace pursuit::bench
