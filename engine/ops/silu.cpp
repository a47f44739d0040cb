#include "engine/operator/elementwise.h"

namespace pursuit {

struct Silu : Unary<Silu> {
  static constexpr const char* name = "silu";
  static constexpr Saves saves = Saves::x;
  template <class A> HD static A fwd(A x) { return x / (1 + std::exp(-x)); }
  template <class A> HD static A bwd(A x, [[maybe_unused]] A y) {
    const A s = 1 / (1 + std::exp(-x));
    return s * (1 + x * (1 - s));
  }
  static std::vector<Sample<Silu>> samples() { return unary_samples<Silu>(-6, 6); }
};
PURSUIT_OPERATOR(Silu)

Tensor silu(const Tensor& x) { return apply(Silu{}, x); }

}  // namespace pursuit
