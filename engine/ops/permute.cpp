#include "engine/operator/operator.h"
#include "engine/ops.h"

namespace pursuit {

struct Permute {
  static constexpr const char* name = "permute";
  std::vector<int> dims = {};

  Tensor forward(const Tensor& x) {
    Shape shape, strides;
    for (int d : dims) {
      shape.push_back(x.shape()[d]);
      strides.push_back(x.strides()[d]);
    }
    return x.view(shape, strides, x.offset());
  }
  Grads backward(const Tensor& gy, Needs) {
    std::vector<int> inverse(dims.size());
    for (size_t i = 0; i < dims.size(); ++i) inverse[size_t(dims[i])] = int(i);
    return {gy.permute(inverse)};
  }
  static std::vector<Sample<Permute>> samples() {
    return {{{{1, 0}}, {{{3, 5}}}}, {{{2, 0, 1}}, {{{2, 3, 33}}}}, {{{1, 0}}, {{{0, 4}}}}};
  }
};
PURSUIT_OPERATOR(Permute)

Tensor permute(const Tensor& x, const std::vector<int>& dims) {
  require_defined("permute", {&x});
  uint32_t seen = 0;
  std::vector<int> order;
  for (int d : dims) {
    order.push_back(x.wrap(d));
    seen |= 1u << order.back();
  }
  if (int(dims.size()) != x.ndim() || seen + 1 != 1u << x.ndim())
    fail("permute", "the dimensions given are not those of a " + x.str() + " in another order");
  return apply(Permute{order}, x);
}

}  // namespace pursuit
