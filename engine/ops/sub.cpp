#include "engine/operator/elementwise.h"

namespace pursuit {

struct Sub : Binary<Sub> {
  static constexpr const char* name = "sub";
  static constexpr Reads da_reads = Reads::none, db_reads = Reads::none;
  template <class A> HD static A fwd(A a, A b) { return a - b; }
  // Returns the incoming gradient itself: nothing is computed unless an input was broadcast.
  Grads backward(const Tensor& gy, Needs needs) {
    return {needs[0] ? like(of_a, gy) : Tensor(), needs[1] ? like(of_b, -gy) : Tensor()};
  }
  static std::vector<Sample<Sub>> samples() { return binary_samples<Sub>(-2, 2); }
};
PURSUIT_OPERATOR(Sub)

Tensor sub(const Tensor& a, const Tensor& b) { return apply(Sub{}, a, b); }

}  // namespace pursuit
