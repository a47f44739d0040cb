#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "nn/module.h"

namespace pursuit::bench {

// The times of a training step of one GPU, in ms.
struct StepTimes {
  struct Gradient {
    std::string name;  // of the parameter
    int64_t elements = 0;
    double ready = 0;  // since the start of the backward pass
  };
  double forward = 0, backward = 0, update = 0;
  std::vector<Gradient> gradients;  // in reverse order of the parameters

  double total() const { return forward + backward + update; }
};

// The work of a layer in the forward and the backward pass: multiply-accumulates, and bytes read and written.
struct Work {
  double macs = 0, bytes = 0;
  double backward_macs = 0, backward_bytes = 0;
};
Work operator+(const Work& a, const Work& b);

// Of the product x [rows, in] weight [out, in]^T in bf16; backward has two such products.
Work linear_work(double rows, double in, double out);
// Of an operator that reads and writes x [rows, dim] once.
Work pass_work(double rows, double dim);
// Of fused attention (FlashAttention), whose backward recomputes the scores.
Work attention_work(double rows, double dim, double tokens, double iterations);

// Divides an estimated step of `step_ms` over the layers, in proportion to the time of their products at the
// measured peak of an H100 plus that of their bytes at its memory bandwidth. AdamW moves 28 bytes per
// parameter. `work` returns the work of a layer, given its name ("blocks.3.mlp.fc1") and its parameters'
// shapes.
StepTimes estimate(const std::vector<nn::NamedTensor>& parameters, double step_ms,
                   const std::function<Work(const std::string&, const std::vector<Shape>&)>& work);

constexpr double hbm_bandwidth = 3.0e12;  // bytes/s, copies on an H100
constexpr double bf16_products = 790e12;  // FLOP/s, matrix products on an H100

}  // namespace pursuit::bench
