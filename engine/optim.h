#pragma once
#include <vector>

#include "engine/tensor.h"

// The passes that an optimizer makes over flat f32 buffers on a GPU, one kernel each. None waits for the GPU,
// and what changes from step to step comes from device memory, so that a recorded step replays with new
// values. Those of the CPU are in engine/cpu/rows.h.
namespace pursuit {

// f32 [n] but where said otherwise, on one GPU, contiguous.
struct FlatUpdate {
  Tensor values, grads;
  Tensor first, second;  // momenta; `second` is AdamW's alone
  Tensor decays;         // u8 [n], 1 where weight decay applies
  Tensor factor;         // of the gradients, []; undefined: 1
  Tensor copy;           // bf16 [n], gets the new values rounded; may be undefined
  Tensor step;           // what write_step wrote, [4]
};

// What follows from the step's number t (from 1) and learning rate, for the updates that are launched next.
void write_step(const Tensor& step, int64_t t, double lr, double beta1, double beta2, double weight_decay);

void adamw(const FlatUpdate& update, double beta1, double beta2, double eps);
void sgd(const FlatUpdate& update, double momentum, double weight_decay, bool nesterov);
void ema(const Tensor& average, const Tensor& values, double decay);  // average += (1 - decay) (values - it)

// flat[at_i ...] = parts[i], of f32 or bf16, for i = 0, 1, ...; an undefined part gives zeros. `add` adds
// them.
struct FlatPart {
  Tensor tensor;
  int64_t at, count;
};
void gather(const std::vector<FlatPart>& parts, const Tensor& flat, bool add = false);

// What gradients x are multiplied by: factor [] = min(1, most / (|x / weight| + 1e-6)) / weight, so that
// factor x is x / weight with a norm of `most` at most. most 0: any norm. weight []; undefined: 1.
void gradient_factor(const Tensor& x, double most, const Tensor& weight, const Tensor& factor);

}  // namespace pursuit
