#include <fmt/format.h>

#include "engine/ops.h"
#include "nn/attacks/parts.h"
#include "nn/attacks/registry.h"

namespace pursuit::attacks {

namespace {

struct Fgsm {
  static constexpr AttackTraits traits = {.name = "fgsm", .norm = Norm::linf, .labels_of_pixels = true};
  struct Options {};
  static Tensor run(const Victim& v, const Tensor& x, double eps, const Options&) { return fgsm(v, x, eps); }
  static std::string describe(const Options&) { return ""; }
};
PURSUIT_ATTACK(Fgsm)

}  // namespace

Tensor fgsm(const Victim& v, const Tensor& x, double eps) {
  return kept_in_range(v, x + sign(loss_gradient(v, x)) * eps);
}

}  // namespace pursuit::attacks
