#include "engine/operator/elementwise.h"

namespace pursuit {

// The larger or smaller of two numbers; NaN if either is NaN. Ties share the gradient equally,
// and both get it for a NaN, as in PyTorch.
template <bool Largest> struct Extreme {
  static constexpr bool masks = true;
  template <class A> HD static bool wins(A a, A b) { return Largest ? a > b : a < b; }
  template <class A> HD static A fwd(A a, A b) {
    return a != a || wins(a, b) ? a : b != b ? b : wins(b, a) ? b : a;
  }
  template <class A> HD static A da(A a, A b) { return wins(b, a) ? A(0) : a == b ? A(0.5) : A(1); }
  template <class A> HD static A db(A a, A b) { return da(b, a); }
};

struct Maximum : Binary<Maximum>, Extreme<true> {
  static constexpr const char* name = "maximum";
  static std::vector<Sample<Maximum>> samples() { return binary_samples<Maximum>(-2, 2); }
};
PURSUIT_OPERATOR(Maximum)

struct Minimum : Binary<Minimum>, Extreme<false> {
  static constexpr const char* name = "minimum";
  static std::vector<Sample<Minimum>> samples() { return binary_samples<Minimum>(-2, 2); }
};
PURSUIT_OPERATOR(Minimum)

Tensor maximum(const Tensor& a, const Tensor& b) { return apply(Maximum{}, a, b); }
Tensor minimum(const Tensor& a, const Tensor& b) { return apply(Minimum{}, a, b); }

}  // namespace pursuit
