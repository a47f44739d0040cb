#pragma once
#include <string>

#include "nn/module.h"
#include "nn/quantization/weights.h"

namespace pursuit::nn {

// Gives the quantised model `to` the weights of `from`, an f32 model of the same sizes: codes and scales;
// gains of norms, position embeddings and the class token on a grid of one scale; biases, gates and what stays
// in floating point as they are. Throws Error that names a weight if it is not finite.
void quantize_weights(const Module& from, Module& to, const WeightOptions& options);

// Calls the model `batches` times with i = 0, 1, ...; each is first entered into the ranges of the
// activations, then rounded by them, so that later ranges see the rounding of earlier ones. Then the model
// runs as before.
template <class Forward> void calibrate(Module& model, int64_t batches, const Forward& forward) {
  Quantization& how = *model.quantization();
  struct Restore {
    Quantization& how;
    const QuantizedRun before = how.run;
    ~Restore() { how.run = before; }
  } restore{how};
  how.run = QuantizedRun::calibrating;
  for (int64_t i = 0; i < batches; ++i) forward(i);
}

// Throws Error that names the first scale or grid of a quantised model that cannot be one: not finite, not
// positive, a zero point that is no code.
void check_quantized(const Module& model);

}  // namespace pursuit::nn
