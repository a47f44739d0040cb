#include "engine/operator/operator.h"
#include "engine/ops.h"

namespace pursuit {

struct Concat {
  static constexpr const char* name = "concat";
  int dim = 0;
  std::vector<int64_t> ends = {};  // of the inputs, along the dimension

  Tensor forward(const std::vector<Tensor>& in) {
    Shape shape = in[0].shape();
    shape[dim] = 0;
    for (const Tensor& t : in) ends.push_back(shape[dim] += t.size(dim));
    Tensor y = empty(shape, in[0].dtype(), in[0].device());
    for (size_t i = 0; i < in.size(); ++i) copy_values(y.slice(dim, begin(i), ends[i]), in[i]);
    return y;
  }
  Grads backward(const Tensor& gy, Needs) {
    Grads grads;
    for (size_t i = 0; i < ends.size(); ++i) grads.push_back(gy.slice(dim, begin(i), ends[i]));
    return grads;
  }
  int64_t begin(size_t i) const { return i == 0 ? 0 : ends[i - 1]; }

  static std::vector<Sample<Concat>> samples() {
    return {{{0}, {{{2, 3}}, {{1, 3}}}},
            {{1}, {{{2, 1, 33}}, {{2, 4, 33}}, {{2, 2, 33}}}},
            {{0}, {{{0, 3}}, {{2, 3}}}},
            {{1}, {{{3, 5}}}}};
  }
};
PURSUIT_OPERATOR(Concat)

Tensor concat(const std::vector<Tensor>& parts, int dim) {
  if (parts.empty()) fail("concat", "there is nothing to join");
  for (size_t i = 0; i < parts.size(); ++i)
    if (!parts[i].defined()) fail_undefined("concat", i + 1, parts.size());
  const Tensor& a = parts[0];
  const int d = a.wrap(dim);
  for (const Tensor& b : parts) {
    Shape other = b.shape();
    if (other.size() == a.ndim()) other[d] = a.shape()[d];
    if (other != a.shape() || a.dtype() != b.dtype() || a.device() != b.device())
      fail("concat", "got " + a.str() + " and " + b.str() + " along dimension " + std::to_string(d));
  }
  return apply(Concat{d}, parts);
}

Tensor stack(const std::vector<Tensor>& parts, int dim) {
  const int ndim = parts.empty() ? 0 : parts[0].ndim();
  if (dim < -ndim - 1 || dim > ndim)
    fail("stack",
         "got dimension " + std::to_string(dim) + " for parts of " + std::to_string(ndim) + " dimensions");
  if (dim < 0) dim += ndim + 1;
  std::vector<Tensor> rows;
  for (const Tensor& p : parts) {
    Shape shape = p.shape();
    if (shape.size() != ndim) fail("stack", "got " + parts[0].str() + " and " + p.str() + ", need one shape");
    shape.insert(dim, 1);
    rows.push_back(p.reshape(shape));
  }
  return concat(rows, dim);
}

}  // namespace pursuit
