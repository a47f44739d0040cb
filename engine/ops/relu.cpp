#include "engine/cpu/rows.h"
#include "engine/operator/elementwise.h"

namespace pursuit {

struct Relu : Unary<Relu> {
  static constexpr const char* name = "relu";
  static constexpr bool masks = true;
  static constexpr Saves saves = Saves::y;  // the next layer usually saves it anyway
  template <class A> HD static A fwd(A x) { return x < 0 ? A(0) : x; }
  static void on_row(const float* x, float* y, int64_t n) { rows<float>().relu(x, y, n); }
  template <class A> HD static A bwd(A, A y) { return y > 0 ? A(1) : A(0); }
  static std::vector<Sample<Relu>> samples() { return unary_samples<Relu>(-4, 4); }
};
PURSUIT_OPERATOR(Relu)

Tensor relu(const Tensor& x) { return apply(Relu{}, x); }

}  // namespace pursuit
