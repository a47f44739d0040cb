#include "engine/operator/elementwise.h"

namespace pursuit {

struct Cos : Unary<Cos> {
  static constexpr const char* name = "cos";
  static constexpr Saves saves = Saves::x;
  template <class A> HD static A fwd(A x) { return std::cos(x); }
  template <class A> HD static A bwd(A x, [[maybe_unused]] A y) { return -std::sin(x); }
  static std::vector<Sample<Cos>> samples() { return unary_samples<Cos>(-4, 4); }
};
PURSUIT_OPERATOR(Cos)

Tensor cos(const Tensor& x) { return apply(Cos{}, x); }

}  // namespace pursuit
