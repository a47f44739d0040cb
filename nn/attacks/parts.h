#pragma once
#include <functional>

#include "nn/attacks/attacks.h"

// Functions shared by the attacks.
namespace pursuit::attacks {

// -1, 0 or 1 for every entry.
Tensor sign(const Tensor& g);

// Random stream i of `draws` (a range of streams::attack) for image `row` of the victim.
uint64_t stream_of(const Victim& victim, int64_t row, const streams::Range& draws, uint64_t i = 0);

// Uniform numbers for every image of x, from its stream streams::attack::start.
Tensor uniform_like(const Victim& victim, const Tensor& x, double lo, double hi);

// dLoss/dx, given slope(logits) = dLoss/dlogits for f32 logits. Throws Error unless it is finite.
Tensor input_gradient(const Victim& victim, const Tensor& x,
                      const std::function<Tensor(const Tensor&)>& slope);

}  // namespace pursuit::attacks
