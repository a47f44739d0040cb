#include "engine/cpu/rows.h"
#include "engine/operator/elementwise.h"

namespace pursuit {

struct Sigmoid : Unary<Sigmoid> {
  static constexpr const char* name = "sigmoid";
  static constexpr Saves saves = Saves::y;
  template <class A> HD static A fwd(A x) { return 1 / (1 + std::exp(-x)); }
  static void on_row(const float* x, float* y, int64_t n) { rows<float>().sigmoid(x, y, n); }
  template <class A> HD static A bwd([[maybe_unused]] A x, [[maybe_unused]] A y) { return y * (1 - y); }
  // The gradient contains 1 - y, which cancels where y saturates, and y is rounded.
  static std::vector<Sample<Sigmoid>> samples() { return unary_samples<Sigmoid>(-8, 8, 4); }
};
PURSUIT_OPERATOR(Sigmoid)

Tensor sigmoid(const Tensor& x) { return apply(Sigmoid{}, x); }

}  // namespace pursuit
