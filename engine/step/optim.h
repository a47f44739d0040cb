#pragma once
#include <vector>

#include "engine/core/tensor.h"

// The passes that an optimizer makes over flat f32 buffers, on a CPU or a GPU. On a GPU each is one kernel,
// none waits, and what changes from step to step comes from device memory, so that a recorded step replays
// with new values.
namespace pursuit {

// A parameter's part of a flat buffer, and whether weight decay applies to it.
struct FlatRange {
  int64_t at, count;
  bool decays;
};

// f32 [n] but where said otherwise, on one device, contiguous.
struct FlatUpdate {
  Tensor values, grads;
  Tensor first, second;                  // momenta; `second` is AdamW's alone
  const std::vector<FlatRange>& ranges;  // in order; what lies between them does not change
  Tensor decays;                         // what decay_mask makes of the ranges
  Tensor factor;                         // of the gradients, []; undefined: 1
  Tensor copy;                           // bf16 [n], gets the new values rounded; may be undefined
  Tensor step;                           // what write_step wrote, [4]
};

// u8 [n], 1 where weight decay applies; undefined on a CPU, which goes by the ranges.
Tensor decay_mask(const std::vector<FlatRange>& ranges, int64_t n, Device device);

struct AdamW {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
};
struct Sgd {
  double momentum = 0.9, weight_decay = 0;
  bool nesterov = true;
};

// What follows from the step's number t (from 1) and learning rate, for the updates that are launched next.
void write_step(const Tensor& step, int64_t t, double lr, const AdamW& options = {});

// p -= lr weight_decay p, then p -= lr mhat / (sqrt(vhat) + eps): Loshchilov & Hutter 2019.
void adamw(const FlatUpdate& update, const AdamW& options);
// As PyTorch's: b = momentum b + g + weight_decay p, p -= lr (nesterov ? g + weight_decay p + momentum b :
// b).
void sgd(const FlatUpdate& update, const Sgd& options);
void ema(const Tensor& average, const Tensor& values, double decay);  // average += (1 - decay) (values - it)

// flat[at_i ...] = parts[i], of f32 or bf16, for i = 0, 1, ...; an undefined part gives zeros. `add` adds
// them.
struct FlatPart {
  Tensor tensor;
  int64_t at, count;
};
void gather(const std::vector<FlatPart>& parts, const Tensor& flat, bool add = false);

// What gradients x are multiplied by: factor [] = min(1, most / (|x / weight| + 1e-6)) / weight, so that
// factor x is x / weight with a norm of `most` at most. most 0: any norm. weight []; undefined: 1. The norm
// is a sum of fixed parts in a fixed order, whatever the number of threads and the GPU.
void gradient_factor(const Tensor& x, double most, const Tensor& weight, const Tensor& factor);

}  // namespace pursuit
