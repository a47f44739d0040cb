#include "engine/operator/elementwise.h"

namespace pursuit {

struct Gelu : Unary<Gelu> {  // x Phi(x)
  static constexpr const char* name = "gelu";
  static constexpr Saves saves = Saves::x;
  // erfc keeps the relative accuracy of the negative tail, where 1 + erf cancels.
  template <class A> HD static A cdf(A x) { return A(0.5) * std::erfc(-x * A(0.70710678118654752)); }
  template <class A> HD static A fwd(A x) { return x * cdf(x); }
  template <class A> HD static A bwd(A x, A) {
    return cdf(x) + x * A(0.39894228040143268) * std::exp(A(-0.5) * x * x);
  }
  static std::vector<Sample<Gelu>> samples() { return unary_samples<Gelu>(-5, 5); }
};
PURSUIT_OPERATOR(Gelu)

Tensor gelu(const Tensor& x) { return apply(Gelu{}, x); }

}  // namespace pursuit
