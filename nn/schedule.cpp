#include "nn/schedule.h"

#include <algorithm>
#include <cmath>

namespace pursuit::nn {

double Schedule::at(double t) const {
  if (t < warmup) return warmup_lr + (lr - warmup_lr) * t / warmup;
  const double done = std::clamp(t / total, 0.0, 1.0);
  switch (kind) {
    case Kind::cosine:
      return min_lr + (lr - min_lr) * 0.5 * (1 + std::cos(3.141592653589793 * done));
    case Kind::polynomial:
      return min_lr + (lr - min_lr) * std::pow(1 - done, power);
    case Kind::constant:
      return lr;
  }
  return lr;
}

}  // namespace pursuit::nn
