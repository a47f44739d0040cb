#include "engine/operator/operator.h"
#include "engine/ops.h"

namespace pursuit {

struct Slice {
  static constexpr const char* name = "slice";
  int dim = 0;
  int64_t begin = 0, end = 0;
  Shape before = {};

  Tensor forward(const Tensor& x) {
    before = x.shape();
    return cut(x);
  }
  Grads backward(const Tensor& gy, Needs) {
    Tensor gx = zeros(before, gy.dtype(), gy.device());
    copy_values(cut(gx), gy);
    return {gx};
  }
  static std::vector<Sample<Slice>> samples() {
    return {{{0, 1, 3}, {{{4, 5}}}}, {{1, 2, 33}, {{{3, 40}}}}, {{1, 2, 2}, {{{3, 4}}}}};
  }

 private:
  Tensor cut(const Tensor& x) const {
    Shape shape = x.shape();
    shape[dim] = end - begin;
    return x.view(shape, x.strides(), x.offset() + begin * x.strides()[dim]);
  }
};

PURSUIT_OPERATOR(Slice)

Tensor slice(const Tensor& x, int dim, int64_t begin, int64_t end) {
  require_defined("slice", {&x});
  const int d = x.wrap(dim);
  const int64_t n = x.size(d), b = begin < 0 ? begin + n : begin, e = end < 0 ? end + n : end;
  if (b < 0 || b > e || e > n)
    fail("slice", std::to_string(begin) + ":" + std::to_string(end) + " of dimension " + std::to_string(d) +
                      " of a " + x.str());
  return apply(Slice{d, b, e}, x);
}

}  // namespace pursuit
