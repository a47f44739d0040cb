#pragma once
#include <vector>

#include "engine/core/tensor.h"

// Optimizer passes over flat f32 buffers on a CPU or GPU. On a GPU each is one kernel and none synchronises;
// values that change from step to step are read from device memory, so that a captured step replays with new
// ones.
namespace pursuit {

// The range of one parameter in a flat buffer, and whether weight decay applies to it.
struct FlatRange {
  int64_t at, count;
  bool decays;
};

// f32 [n] unless noted; all contiguous and on one device.
struct FlatUpdate {
  Tensor values, grads;
  Tensor first, second;                  // moments; `second` is used by AdamW only
  const std::vector<FlatRange>& ranges;  // in order; elements between them are not changed
  Tensor decays;                         // decay_mask of the ranges
  Tensor factor;                         // of the gradients, []; undefined: 1
  Tensor copy;                           // bf16 [n], receives the new values rounded; may be undefined
  Tensor step;                           // written by write_step, [4]
};

// u8 [n], 1 where weight decay applies; undefined on a CPU, which uses the ranges.
Tensor decay_mask(const std::vector<FlatRange>& ranges, int64_t n, Device device);

struct AdamW {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
};
struct Sgd {
  double momentum = 0.9, weight_decay = 0;
  bool nesterov = true;
};

// Computes the coefficients of step t (from 1) with this learning rate, for updates launched afterwards.
void write_step(const Tensor& step, int64_t t, double lr, const AdamW& options = {});

// p -= lr weight_decay p, then p -= lr mhat / (sqrt(vhat) + eps): Loshchilov & Hutter 2019.
void adamw(const FlatUpdate& update, const AdamW& options);
// As in PyTorch: b = momentum b + g + weight_decay p, p -= lr (nesterov ? g + weight_decay p + momentum b :
// b).
void sgd(const FlatUpdate& update, const Sgd& options);
void ema(const Tensor& average, const Tensor& values, double decay);  // average += (1 - decay) (values - it)

// flat[at_i ...] = parts[i] (f32 or bf16) for i = 0, 1, ...; an undefined part counts as zeros. With `add`,
// adds instead.
struct FlatPart {
  Tensor tensor;
  int64_t at, count;
};
void gather(const std::vector<FlatPart>& parts, const Tensor& flat, bool add = false);

// Gradient clipping: factor [] = min(1, most / (|x / weight| + 1e-6)) / weight, so that factor x is x /
// weight with norm at most `most`; most = 0: no limit. weight is []; undefined: 1. The norm is summed over
// fixed parts in a fixed order, whatever the number of threads and the GPU.
void gradient_factor(const Tensor& x, double most, const Tensor& weight, const Tensor& factor);

}  // namespace pursuit
