#include "engine/operator/copy.h"
#include "engine/operator/elementwise.h"

namespace pursuit {

struct Add : Binary<Add> {
  static constexpr const char* name = "add";
  static constexpr Reads da_reads = Reads::none, db_reads = Reads::none;
  template <class A> HD static A fwd(A a, A b) { return a + b; }
  // Returns the incoming gradient itself: nothing is computed unless an input was broadcast.
  Grads backward(const Tensor& gy, Needs needs) {
    return {needs[0] ? like(of_a, gy) : Tensor(), needs[1] ? like(of_b, gy) : Tensor()};
  }
  static std::vector<Sample<Add>> samples() { return binary_samples<Add>(-2, 2); }
};
PURSUIT_OPERATOR(Add)

Tensor add(const Tensor& a, const Tensor& b) { return apply(Add{}, a, b); }

void add_to(const Tensor& sum, const Tensor& x) {
  require_defined("add_to", {&sum, &x});
  if (broadcast_shapes(sum.shape(), x.shape(), "add_to") != sum.shape() || sum.dtype() != x.dtype() ||
      sum.device() != x.device())
    fail("add_to", "got " + sum.str() + " and " + x.str() + ", need a second of the first's kind and shape");
  require_apart("add_to", sum, x);
  dispatch(sum, "add_to", [&]<class Dev, class T>(Dev dev, Type<T>) {
    for_each(dev, layout_of(sum.shape(), sum, sum, x),
             map_to(sum.data<T>(), BinaryForward<Add>{}, sum.data<T>(), x.data<T>()));
  });
  sum.bump_version("add_to");
}

}  // namespace pursuit
