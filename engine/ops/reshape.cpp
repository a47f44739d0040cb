#include "engine/operator/operator.h"
#include "engine/ops.h"

namespace pursuit {

namespace {

// The strides that view x in `shape` without a copy; false if there are none.
bool view_strides(const Tensor& x, const Shape& shape, Shape& strides) {
  strides = shape;
  int from = x.ndim() - 1;
  int64_t numel = 1, wanted = 1, step = 1;
  int to = shape.size() - 1;
  while (from >= 0 || to >= 0) {
    // A run of dimensions that x traverses with a single stride.
    while (from >= 0 && x.shape()[from] == 1) --from;
    if (from < 0) break;
    step = x.strides()[from];
    numel = x.shape()[from--];
    while (from >= 0 && (x.shape()[from] == 1 || x.strides()[from] == step * numel))
      numel *= x.shape()[from--];
    wanted = 1;
    while (to >= 0 && wanted < numel) {
      strides[to] = step * wanted;
      wanted *= shape[to--];
    }
    if (wanted != numel) return false;
  }
  for (; to >= 0; --to) strides[to] = 1;
  return true;
}

}  // namespace

struct Reshape {
  static constexpr const char* name = "reshape";
  Shape shape = {};
  Shape before = {};

  Tensor forward(const Tensor& x) {
    before = x.shape();
    Shape strides;
    if (x.numel() > 0 && view_strides(x, shape, strides)) return x.view(shape, strides, x.offset());
    const Tensor dense = x.contiguous();
    return dense.view(shape, contiguous_strides(shape), dense.offset());
  }
  Grads backward(const Tensor& gy, Needs) { return {gy.reshape(before)}; }
  static std::vector<Sample<Reshape>> samples() {
    return {{{{6, 2}}, {{{3, 4}}}}, {{{2, 3, 1, 5}}, {{{6, 5}}}}, {{{0, 7}}, {{{7, 0}}}}, {{{}}, {{{1, 1}}}}};
  }
};
PURSUIT_OPERATOR(Reshape)

Tensor reshape(const Tensor& x, const Shape& wanted) {
  require_defined("reshape", {&x});
  Shape shape = wanted;
  int64_t known = 1;
  int open = -1;
  for (int i = 0; i < shape.size(); ++i) {
    if (shape[i] != -1) {
      known *= shape[i];
    } else {
      if (open >= 0) fail("reshape", "more than one -1 in " + wanted.str());
      open = i;
    }
  }
  if (open >= 0) {
    if (known == 0 || x.numel() % known) fail("reshape", "a " + x.str() + " does not fit " + wanted.str());
    shape[open] = x.numel() / known;
  }
  if (shape.numel() != x.numel()) fail("reshape", "a " + x.str() + " does not fit " + wanted.str());
  return apply(Reshape{shape}, x);
}

}  // namespace pursuit
