#pragma once
#include <string>

#include "nn/module.h"

// Initialisers fill a parameter in place; the numbers are those of Philox stream (seed, stream).
namespace pursuit::nn {

void fill_constant(Tensor& t, double value);
void fill_normal(Tensor& t, double mean, double std, uint64_t seed, uint64_t stream);
// U(-bound, bound).
void fill_uniform(Tensor& t, double bound, uint64_t seed, uint64_t stream);
// N(0, std^2) cut at +-2 (absolute, as timm's trunc_normal_ with its defaults).
void fill_truncated_normal(Tensor& t, double std, uint64_t seed, uint64_t stream);
// U(-1/sqrt(fan_in), 1/sqrt(fan_in)), PyTorch's default for linear layers and convolutions.
void fill_fan_in_uniform(Tensor& t, int64_t fan_in, uint64_t seed, uint64_t stream);

// The inputs of one output of the layer that parameter `name` belongs to (a bias has its weight's).
int64_t fan_in(const Module& model, const std::string& name);

}  // namespace pursuit::nn
