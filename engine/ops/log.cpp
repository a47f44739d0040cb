#include "engine/operator/elementwise.h"

namespace pursuit {

struct Log : Unary<Log> {
  static constexpr const char* name = "log";
  static constexpr Saves saves = Saves::x;
  template <class A> HD static A fwd(A x) { return std::log(x); }
  template <class A> HD static A bwd([[maybe_unused]] A x, [[maybe_unused]] A y) { return 1 / x; }
  static std::vector<Sample<Log>> samples() { return unary_samples<Log>(0.1, 4); }
};
PURSUIT_OPERATOR(Log)

Tensor log(const Tensor& x) { return apply(Log{}, x); }

}  // namespace pursuit
