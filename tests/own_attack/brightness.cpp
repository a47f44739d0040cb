#include <fmt/format.h>

#include "engine/ops.h"
#include "nn/attacks/parts.h"
#include "nn/attacks/registry.h"

// An attack that the engine does not have: whole pictures become brighter or darker, whichever raises the
// loss. Linked into an app it is on its command line, in records, reports and comparisons.
namespace {

using namespace pursuit;
using namespace pursuit::attacks;

struct Brightness {
  static constexpr AttackTraits traits = {.name = "brightness", .norm = Norm::linf, .labels_of_pixels = true};
  struct Options {
    double share = 1;
  };

  template <class O, class F> static void for_each_option(O& o, const F& f) {
    f("share", o.share, "of the budget that is used", above(0, 1));
  }
  static Tensor run(const Victim& v, const Tensor& x, double eps, const Options& o) {
    const Tensor way = sign(sum(loss_gradient(v, x), {1, 2, 3}, true));
    return kept_in_range(v, x + way * (o.share * eps));
  }
  static std::string describe(const Options& o) { return fmt::format("{} of the budget", o.share); }
};
PURSUIT_ATTACK(Brightness)

}  // namespace
