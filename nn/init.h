#pragma once
#include <string>
#include <vector>

#include "engine/base/choice.h"
#include "nn/module.h"

namespace pursuit::nn {

// Schemes of initialising a model's weights.
enum class Init {
  timm,     // truncated normal of std 0.02 for weights and embeddings; biases 0
  pytorch,  // U(+-1/sqrt(fan_in)) for weights and biases, as the published RPC code ends up with (spec
            // 2.6, row 16), embeddings as timm
  gpt2,     // N(0, 0.02), the layers that add to the residual stream N(0, 0.02 / sqrt(2 depth)); biases 0
  transformer_xl,  // N(0, 0.02), norms' weights N(1, 0.02), tail projections N(0, 0.01); biases 0
  fairseq,  // embeddings N(0, 1/dim), q, k and v Xavier-uniform of gain 1/sqrt(2), the attention's output
            // Xavier-uniform with zero bias, the other layers PyTorch's default
};
inline std::vector<Choice<Init>> choices_of(Init) {
  return {{"timm", Init::timm, "truncated normal 0.02"},
          {"pytorch", Init::pytorch, "uniform by fan-in"},
          {"gpt2", Init::gpt2},
          {"transformer-xl", Init::transformer_xl},
          {"fairseq", Init::fairseq}};
}

// Gives every parameter its initial value, according to its Role and to random numbers from the seed. In all
// schemes, unless noted, norms start as the identity, projections of mask decoders as a truncated normal of
// std 1/sqrt(in), and depthwise convolutions as N(0, 2/fan_in), except for pytorch.
void initialise(Module& model, Init init, uint64_t seed);

// The functions below fill a parameter in place from Philox stream (seed, stream).
void fill_constant(Tensor& t, double value);
void fill_normal(Tensor& t, double mean, double std, uint64_t seed, uint64_t stream);
// U(-bound, bound).
void fill_uniform(Tensor& t, double bound, uint64_t seed, uint64_t stream);
// N(0, std^2) cut at +-2 (absolute, as in timm's trunc_normal_ with its defaults).
void fill_truncated_normal(Tensor& t, double std, uint64_t seed, uint64_t stream);

}  // namespace pursuit::nn
