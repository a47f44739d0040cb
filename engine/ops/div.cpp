#include "engine/operator/elementwise.h"

namespace pursuit {

struct Div : Binary<Div> {
  static constexpr const char* name = "div";
  static constexpr Reads da_reads = Reads::b;
  template <class A> HD static A fwd(A a, A b) { return a / b; }
  template <class A> HD static A da([[maybe_unused]] A a, [[maybe_unused]] A b) { return 1 / b; }
  template <class A> HD static A db([[maybe_unused]] A a, [[maybe_unused]] A b) { return -a / (b * b); }
  static std::vector<Sample<Div>> samples() { return binary_samples<Div>(0.5, 2); }
};
PURSUIT_OPERATOR(Div)

Tensor div(const Tensor& a, const Tensor& b) { return apply(Div{}, a, b); }

}  // namespace pursuit
