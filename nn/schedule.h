#pragma once
#include <cstdint>
#include <vector>

#include "engine/base/choice.h"

namespace pursuit::nn {

// Learning rate schedule by step (or epoch, as the caller counts): linear warm-up from warmup_lr, which is
// part of the total; then cosine decay from lr to min_lr, or polynomial (1 - t/total)^power.
struct Schedule {
  enum class Kind { cosine, polynomial, constant } kind = Kind::cosine;
  friend std::vector<Choice<Kind>> choices_of(Kind) {
    return {{"cosine", Kind::cosine}, {"polynomial", Kind::polynomial}, {"constant", Kind::constant}};
  }
  double lr = 1e-3, min_lr = 1e-5, warmup_lr = 1e-6, power = 0.9;
  double warmup = 0, total = 1;  // in the caller's unit

  double at(double t) const;
};

}  // namespace pursuit::nn
