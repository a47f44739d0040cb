#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "apps/bench/network.h"
#include "apps/bench/step_times.h"

namespace pursuit::bench {

// A collective of `ms`, which may start when the backward pass has done what takes it `ready` ms alone.
struct Collective {
  double ready = 0, ms = 0;
};

struct Replay {
  struct Span {
    double begin, end;
  };
  std::vector<Span> collectives;  // in ms since the backward pass began
  double backward = 0;            // when it has ended
  double end = 0;                 // when all has
};

// A backward pass that takes `backward` ms alone on one stream; beside it, on another, the collectives one
// after the other, in their order. While one runs, the backward pass has 1 - contention of its speed.
Replay replay(double backward, const std::vector<Collective>& collectives, double contention);

// A part of the flat buffer of all gradients.
struct Slice {
  int64_t elements = 0;
  double ready = 0;  // when the last gradient in it is, in ms since the backward pass began
};
// `count` slices of equal size of the gradients as they lie, the first ones first; a border may lie within a
// gradient.
std::vector<Slice> slices(const std::vector<StepTimes::Gradient>& gradients, int count);

struct Exchange {
  int slices = 4;
  int bytes = 4;  // of an element on the wire: 4 (f32) or 2 (bf16, converted before and after)
  double contention = 0.12;
  // The weight of an embedding that the output layer shares, whose gradient is complete only when backward
  // ends. Named here, the output layer's part of it is a slice more, the first, as soon as that layer is
  // done; and at the end every rank gathers so many (index, row) pairs of each rank and adds the rows itself.
  std::string tied = {};
  int64_t rows = 0, width = 0;
};

struct Exposure {
  double collectives_ms = 0;  // if nothing else ran
  double bytes = 0;           // that a rank gives to them
  double exposed_ms = 0;      // by which the step is longer than that of one GPU alone
};
Exposure expose(const StepTimes& step, const Exchange& exchange, const Network& network);

}  // namespace pursuit::bench
