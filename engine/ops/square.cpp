#include "engine/operator/elementwise.h"

namespace pursuit {

struct Square : Unary<Square> {
  static constexpr const char* name = "square";
  static constexpr Saves saves = Saves::x;
  template <class A> HD static A fwd(A x) { return x * x; }
  template <class A> HD static A bwd([[maybe_unused]] A x, [[maybe_unused]] A y) { return 2 * x; }
  static std::vector<Sample<Square>> samples() { return unary_samples<Square>(-4, 4); }
};
PURSUIT_OPERATOR(Square)

Tensor square(const Tensor& x) { return apply(Square{}, x); }

}  // namespace pursuit
