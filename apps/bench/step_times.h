#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "nn/module.h"

namespace pursuit::bench {

// When one training step of one GPU has done what, in ms.
struct StepTimes {
  struct Gradient {
    std::string name;  // of the parameter
    int64_t elements = 0;
    double ready = 0;  // since the backward pass began
  };
  double forward = 0, backward = 0, update = 0;
  std::vector<Gradient> gradients;  // from the last parameter of the model to the first

  double total() const { return forward + backward + update; }
};

// What a layer does in a forward and in a backward pass: multiply-accumulates, and bytes to and from memory.
struct Work {
  double macs = 0, bytes = 0;
  double backward_macs = 0, backward_bytes = 0;
};
Work operator+(const Work& a, const Work& b);

// Of x [rows, in] weight [out, in]^T, in bf16; backward has two such products.
Work linear_work(double rows, double in, double out);
// Of what reads and writes x [rows, dim] once.
Work pass_work(double rows, double dim);
// Of queries on keys and probabilities on values, flash-style: backward computes the scores again.
Work attention_work(double rows, double dim, double tokens, double iterations);

// A step of `step_ms` by plan: divided over the layers in proportion to what their products take at the
// measured peak of an H100 and their bytes at its memory bandwidth, one after the other. AdamW takes its 28
// bytes a parameter. `work` is of a layer by its name ("blocks.3.mlp.fc1") and the shapes of its parameters.
StepTimes estimate(const std::vector<nn::NamedTensor>& parameters, double step_ms,
                   const std::function<Work(const std::string&, const std::vector<Shape>&)>& work);

constexpr double hbm_bandwidth = 3.0e12;  // bytes a second, copies on an H100
constexpr double bf16_products = 790e12;  // FLOP a second, matrix products on an H100

}  // namespace pursuit::bench
