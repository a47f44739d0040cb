#include <fmt/format.h>

#include "nn/attacks/registry.h"

namespace pursuit::attacks {

namespace {

template <Norm ball> struct AutoAttack {
  static constexpr AttackTraits traits = {.name = ball == Norm::linf ? "autoattack" : "autoattack-l2",
                                          .norm = ball};
  struct Options {
    int queries = 5000;
  };

  template <class O, class F> static void for_each_option(O& o, const F& f) {
    f("queries", o.queries, "queries of Square", Range{1, max_square_queries});
  }
  static Tensor run(const Victim& v, const Tensor& x, double eps, const Options& o) {
    return autoattack(v, x, eps, ball, o.queries);
  }
  static std::string describe(const Options& o) {
    return fmt::format("apgd-ce, apgd-t, fab-t, square of {} queries", o.queries);
  }
};
using AutoAttackLinf = AutoAttack<Norm::linf>;
using AutoAttackL2 = AutoAttack<Norm::l2>;
PURSUIT_ATTACK(AutoAttackLinf)
PURSUIT_ATTACK(AutoAttackL2)

}  // namespace

Tensor autoattack(const Victim& v, const Tensor& x, double eps, Norm norm, int queries) {
  // Each takes what the one before has left right, since pictures that are wrong come back as they are.
  Tensor adv = apgd(v, x, eps, {.norm = norm});
  adv = apgd(v, adv, eps, {.norm = norm, .targets = 9});
  adv = fab(v, adv, eps, {.norm = norm});
  return attacks::square(v, adv, eps, {.norm = norm, .queries = queries});
}

}  // namespace pursuit::attacks
