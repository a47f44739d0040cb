#include "engine/cpu/rows.h"
#include "engine/operator/elementwise.h"

namespace pursuit {

struct Tanh : Unary<Tanh> {
  static constexpr const char* name = "tanh";
  static constexpr Saves saves = Saves::y;
  template <class A> HD static A fwd(A x) { return std::tanh(x); }
  static void on_row(const float* x, float* y, int64_t n) { rows<float>().tanh(x, y, n); }
  template <class A> HD static A bwd([[maybe_unused]] A x, [[maybe_unused]] A y) { return 1 - y * y; }
  // The gradient contains 1 - y^2, which cancels where y saturates, and y is rounded.
  static std::vector<Sample<Tanh>> samples() { return unary_samples<Tanh>(-4, 4, 4); }
};
PURSUIT_OPERATOR(Tanh)

Tensor tanh(const Tensor& x) { return apply(Tanh{}, x); }

}  // namespace pursuit
