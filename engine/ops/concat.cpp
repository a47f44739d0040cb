#include "engine/operator.h"
#include "engine/ops.h"

namespace pursuit {

struct Concat {
  static constexpr const char* name = "concat";
  int dim = 0;
  int64_t split = 0, total = 0;

  Tensor forward(const Tensor& a, const Tensor& b) {
    Shape shape = a.shape();
    split = shape[dim];
    total = shape[dim] += b.shape()[dim];
    Tensor y = empty(shape, a.dtype(), a.device());
    copy_values(y.slice(dim, 0, split), a);
    copy_values(y.slice(dim, split, total), b);
    return y;
  }
  Grads backward(const Tensor& gy, Needs) { return {gy.slice(dim, 0, split), gy.slice(dim, split, total)}; }
  static std::vector<Sample<Concat>> samples() {
    return {{{0}, {{{2, 3}}, {{1, 3}}}}, {{1}, {{{2, 1, 33}}, {{2, 4, 33}}}}, {{0}, {{{0, 3}}, {{2, 3}}}}};
  }
};
PURSUIT_OPERATOR(Concat)

Tensor concat(const Tensor& a, const Tensor& b, int dim) {
  require_defined("concat", {&a, &b});
  const int d = a.wrap(dim);
  Shape other = b.shape();
  if (other.size() == a.ndim()) other[d] = a.shape()[d];
  if (other != a.shape() || a.dtype() != b.dtype() || a.device() != b.device())
    fail("concat", "got " + a.str() + " and " + b.str() + " along dimension " + std::to_string(d));
  return apply(Concat{d}, a, b);
}

Tensor stack(const std::vector<Tensor>& parts, int dim) {
  if (parts.empty()) fail("stack", "nothing to stack");
  Tensor all;
  for (const Tensor& p : parts) {
    Shape shape = p.shape();
    shape.insert(dim, 1);
    const Tensor one = p.reshape(shape);
    all = all.defined() ? concat(all, one, dim) : one;
  }
  return all;
}

}  // namespace pursuit
