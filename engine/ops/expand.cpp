#include "engine/operator/for_each.h"
#include "engine/operator/operator.h"
#include "engine/ops.h"

namespace pursuit {

struct Expand {
  static constexpr const char* name = "expand";
  Shape shape = {};
  Shape before = {};

  Tensor forward(const Tensor& x) {
    before = x.shape();
    return x.view(shape, broadcast_strides(x, shape), x.offset());
  }
  Grads backward(const Tensor& gy, Needs) { return {sum_to(gy, before)}; }
  static std::vector<Sample<Expand>> samples() {
    return {{{{4, 5}}, {{{5}}}}, {{{2, 3, 33}}, {{{3, 1}}}}, {{{0, 4}}, {{{4}}}}};
  }
};
PURSUIT_OPERATOR(Expand)

Tensor expand(const Tensor& x, const Shape& shape) {
  require_defined("expand", {&x});
  shape.numel();  // throws if a size is negative or the product too large
  if (broadcast_shapes(x.shape(), shape, "expand") != shape)
    fail("expand", "a " + x.str() + " does not broadcast to " + shape.str());
  return apply(Expand{shape}, x);
}

}  // namespace pursuit
