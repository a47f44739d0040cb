#include <fmt/format.h>

#include <cmath>

#include "engine/ops.h"
#include "nn/attacks/parts.h"
#include "nn/attacks/registry.h"

namespace pursuit::attacks {

namespace {

struct Mim {
  static constexpr AttackTraits traits = {.name = "mim", .norm = Norm::linf, .labels_of_pixels = true};
  using Options = MimOptions;

  template <class O, class F> static void for_each_option(O& o, const F& f) {
    f("steps", o.steps, "steps, of the budget together", Range{1, 1e6});
    f("decay", o.decay, "what is left of the accumulated gradient at every step", Range{0, 1e3});
  }
  static Tensor run(const Victim& v, const Tensor& x, double eps, const Options& o) {
    return mim(v, x, eps, o);
  }
  static std::string describe(const Options& o) {
    return fmt::format("{} steps, decay {}", o.steps, o.decay);
  }
};
PURSUIT_ATTACK(Mim)

}  // namespace

Tensor mim(const Victim& v, const Tensor& x, double eps, const MimOptions& o) {
  Tensor adv = x, total;
  for (int i = 0; i < o.steps; ++i) {
    const Tensor g = loss_gradient(v, adv);
    const Tensor scaled = g / clamp(mean(abs(g), {1, 2, 3}, true), 1e-12, INFINITY);
    total = total.defined() ? total * o.decay + scaled : scaled;
    adv = kept_in_range(v, x + clamp(adv + sign(total) * (eps / o.steps) - x, -eps, eps));
  }
  return adv;
}

}  // namespace pursuit::attacks
