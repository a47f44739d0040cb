#include "engine/operator/elementwise.h"

namespace pursuit {

struct Sqrt : Unary<Sqrt> {
  static constexpr const char* name = "sqrt";
  static constexpr Saves saves = Saves::y;
  template <class A> HD static A fwd(A x) { return std::sqrt(x); }
  template <class A> HD static A bwd([[maybe_unused]] A x, [[maybe_unused]] A y) { return A(0.5) / y; }
  static std::vector<Sample<Sqrt>> samples() { return unary_samples<Sqrt>(0.1, 4); }
};
PURSUIT_OPERATOR(Sqrt)

Tensor sqrt(const Tensor& x) { return apply(Sqrt{}, x); }

}  // namespace pursuit
