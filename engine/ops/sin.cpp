#include "engine/operator/elementwise.h"

namespace pursuit {

struct Sin : Unary<Sin> {
  static constexpr const char* name = "sin";
  static constexpr Saves saves = Saves::x;
  template <class A> HD static A fwd(A x) { return std::sin(x); }
  template <class A> HD static A bwd(A x, [[maybe_unused]] A y) { return std::cos(x); }
  static std::vector<Sample<Sin>> samples() { return unary_samples<Sin>(-4, 4); }
};
PURSUIT_OPERATOR(Sin)

Tensor sin(const Tensor& x) { return apply(Sin{}, x); }

}  // namespace pursuit
