#include <fmt/format.h>

#include "engine/ops.h"
#include "nn/attacks/parts.h"
#include "nn/attacks/registry.h"

namespace pursuit::attacks {

namespace {

struct Noise {
  static constexpr AttackTraits traits = {.name = "noise"};
  struct Options {
    double amplitude = 0.3;
  };

  template <class O, class F> static void for_each_option(O& o, const F& f) {
    f("amplitude", o.amplitude, "largest change of an entry", above(0, 1e3));
  }
  static double budget(const Options& o) { return o.amplitude; }
  static Tensor run(const Victim& v, const Tensor& x, double, const Options& o) {
    return noise(v, x, o.amplitude);
  }
  static std::string describe(const Options&) { return ""; }
};
PURSUIT_ATTACK(Noise)

}  // namespace

Tensor noise(const Victim& v, const Tensor& x, double amplitude) {
  return kept_in_range(v, x + uniform_like(v, x, -amplitude, amplitude));
}

}  // namespace pursuit::attacks
