#include "engine/operator/elementwise.h"

// An operator outside the engine: this file is all there is. Mish (Misra 2020), x tanh(softplus(x)).
namespace example {

using pursuit::Sample;

struct Mish : pursuit::Unary<Mish> {
  static constexpr const char* name = "mish";
  template <class A> HD static A fwd(A x) { return x * std::tanh(std::log1p(std::exp(x))); }
  template <class A> HD static A bwd(A x, A) {
    const A t = std::tanh(std::log1p(std::exp(x))), sigmoid = 1 / (1 + std::exp(-x));
    return t + x * sigmoid * (1 - t * t);
  }
  static std::vector<Sample<Mish>> samples() { return pursuit::unary_samples<Mish>(-6, 6); }
};
PURSUIT_OPERATOR(Mish)

pursuit::Tensor mish(const pursuit::Tensor& x) { return apply(Mish{}, x); }

}  // namespace example
