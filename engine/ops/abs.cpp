#include <cmath>

#include "engine/operator/elementwise.h"

namespace pursuit {

struct Abs : Unary<Abs> {
  static constexpr const char* name = "abs";
  static constexpr Saves saves = Saves::x;
  template <class A> HD static A fwd(A x) { return std::fabs(x); }
  template <class A> HD static A bwd([[maybe_unused]] A x, [[maybe_unused]] A y) {
    return A((x > 0) - (x < 0));
  }
  static std::vector<Sample<Abs>> samples() { return unary_samples<Abs>(-4, 4); }
};
PURSUIT_OPERATOR(Abs)

Tensor abs(const Tensor& x) { return apply(Abs{}, x); }

}  // namespace pursuit
