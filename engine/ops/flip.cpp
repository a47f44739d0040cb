#include <algorithm>

#include "engine/operator/operator.h"
#include "engine/ops.h"

namespace pursuit {

struct Flip {
  static constexpr const char* name = "flip";
  std::vector<int> dims = {};

  Tensor turned(const Tensor& x) const {
    Shape strides = x.strides();
    int64_t offset = x.offset();
    for (const int d : dims) {
      if (x.size(d) > 0) offset += (x.size(d) - 1) * strides[d];
      strides[d] = -strides[d];
    }
    Tensor y = empty_like(x);
    copy_values(y, x.view(x.shape(), strides, offset));
    return y;
  }
  Tensor forward(const Tensor& x) { return turned(x); }
  Grads backward(const Tensor& gy, Needs) { return {turned(gy)}; }
  static std::vector<Sample<Flip>> samples() {
    return {{{{0}}, {{{7}}}}, {{{1}}, {{{3, 5}}}}, {{{0, 2}}, {{{2, 3, 33}}}}, {{{0}}, {{{0, 3}}}}};
  }
};
PURSUIT_OPERATOR(Flip)

Tensor flip(const Tensor& x, const std::vector<int>& dims) {
  require_defined("flip", {&x});
  std::vector<int> wrapped;
  for (const int d : dims) wrapped.push_back(x.wrap(d));
  std::sort(wrapped.begin(), wrapped.end());
  if (std::adjacent_find(wrapped.begin(), wrapped.end()) != wrapped.end())
    fail("flip", "a dimension is given twice");
  return apply(Flip{wrapped}, x);
}

}  // namespace pursuit
