#include "engine/operator/elementwise.h"

namespace pursuit {

struct Mul : Binary<Mul> {
  static constexpr const char* name = "mul";
  static constexpr Reads da_reads = Reads::b, db_reads = Reads::a;
  template <class A> HD static A fwd(A a, A b) { return a * b; }
  template <class A> HD static A da([[maybe_unused]] A a, [[maybe_unused]] A b) { return b; }
  template <class A> HD static A db([[maybe_unused]] A a, [[maybe_unused]] A b) { return a; }
  static std::vector<Sample<Mul>> samples() { return binary_samples<Mul>(-2, 2); }
};
PURSUIT_OPERATOR(Mul)

Tensor mul(const Tensor& a, const Tensor& b) { return apply(Mul{}, a, b); }

}  // namespace pursuit
