#include "engine/operator/elementwise.h"

namespace pursuit {

struct SoftThreshold : Binary<SoftThreshold> {
  static constexpr const char* name = "soft_threshold";
  static constexpr bool masks = true;
  // A NaN of either is the result; an infinite threshold gives 0.
  template <class A> HD static A fwd(A a, A b) {
    return a > b ? a - b : a < -b ? a + b : b != b ? b : A(0) * a;
  }
  template <class A> HD static A da([[maybe_unused]] A a, [[maybe_unused]] A b) {
    return a > b || a < -b ? A(1) : A(0);
  }
  template <class A> HD static A db([[maybe_unused]] A a, [[maybe_unused]] A b) {
    return a > b ? A(-1) : a < -b ? A(1) : A(0);
  }
  static std::vector<Sample<SoftThreshold>> samples() { return binary_samples<SoftThreshold>(0.1, 2); }
};
PURSUIT_OPERATOR(SoftThreshold)

Tensor soft_threshold(const Tensor& x, const Tensor& tau) { return apply(SoftThreshold{}, x, tau); }

}  // namespace pursuit
