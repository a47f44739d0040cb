#include <fmt/format.h>

#include "engine/ops.h"
#include "nn/attacks/parts.h"
#include "nn/attacks/registry.h"

namespace pursuit::attacks {

namespace {

struct Pgd {
  static constexpr AttackTraits traits = {.name = "pgd", .norm = Norm::linf, .labels_of_pixels = true};
  using Options = PgdOptions;

  template <class O, class F> static void for_each_option(O& o, const F& f) {
    f("steps", o.steps, "steps", Range{0, 1e6});
    f("step", o.step, "their length relative to the budget", above(0, 1e3));
  }
  static Tensor run(const Victim& v, const Tensor& x, double eps, const Options& o) {
    return pgd(v, x, eps, o);
  }
  static std::string describe(const Options& o) {
    return fmt::format("{} steps of {} of the budget", o.steps, o.step);
  }
};
PURSUIT_ATTACK(Pgd)

}  // namespace

Tensor pgd(const Victim& v, const Tensor& x, double eps, const PgdOptions& o) {
  Tensor adv = kept_in_range(v, x + uniform_like(v, x, -eps, eps));
  for (int i = 0; i < o.steps; ++i) {
    const Tensor moved = adv + sign(loss_gradient(v, adv)) * (o.step * eps);
    adv = kept_in_range(v, x + clamp(moved - x, -eps, eps));
  }
  return adv;
}

}  // namespace pursuit::attacks
