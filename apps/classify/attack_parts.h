#pragma once
#include <functional>

#include "apps/classify/attacks.h"

// What the attacks share.
namespace pursuit::classify {

// -1, 0 or 1 for every entry.
Tensor sign(const Tensor& g);

// Uniform numbers for every picture of x. `draw`, below 65536, tells a victim's draws apart.
Tensor uniform_like(const Victim& victim, const Tensor& x, double lo, double hi, uint64_t draw = 0);

// dLoss/dx, given slope(logits) = dLoss/dlogits for f32 logits. Throws Error unless it is finite.
Tensor input_gradient(const Victim& victim, const Tensor& x,
                      const std::function<Tensor(const Tensor&)>& slope);

}  // namespace pursuit::classify
