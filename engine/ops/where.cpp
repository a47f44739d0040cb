#include "engine/operator/for_each.h"
#include "engine/operator/operator.h"
#include "engine/ops.h"

namespace pursuit {

namespace {

template <class T> struct Choose {
  const uint8_t* condition;
  const T *a, *b;
  T* y;
  HD void operator()(int64_t i, int64_t j, int64_t k, int64_t l) const { y[l] = condition[i] ? a[j] : b[k]; }
};

}  // namespace

struct Where {
  static constexpr const char* name = "where";
  Tensor condition = {};  // u8
  Shape shape_a = {}, shape_b = {};

  static Tensor choose(const Tensor& condition, const Tensor& a, const Tensor& b, const Shape& shape) {
    const Tensor y = empty(shape, a.dtype(), a.device());
    dispatch(y, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      for_each(dev, layout_of(shape, condition, a, b, y),
               Choose<T>{condition.data<uint8_t>(), a.data<T>(), b.data<T>(), y.data<T>()});
    });
    return y;
  }

  Tensor forward(const Tensor& chosen, const Tensor& a, const Tensor& b) {
    condition = chosen.dtype() == DType::u8 ? chosen : chosen != 0;
    shape_a = a.shape(), shape_b = b.shape();
    const Shape shape = broadcast_shapes(broadcast_shapes(condition.shape(), shape_a, name), shape_b, name);
    return choose(condition, a, b, shape);
  }
  Grads backward(const Tensor& gy, Needs needs) {
    const Tensor none = zeros({}, gy.dtype(), gy.device());
    return {Tensor(), needs[1] ? sum_to(choose(condition, gy, none, gy.shape()), shape_a) : Tensor(),
            needs[2] ? sum_to(choose(condition, none, gy, gy.shape()), shape_b) : Tensor()};
  }
  Tensor reference(const Tensor& chosen, const Tensor& a, const Tensor& b) const {
    const Tensor c = (chosen != 0).to(a.dtype());
    return c * a + (1 - c) * b;
  }
  static std::vector<Sample<Where>> samples() {
    return {{{}, {labels({7}, 2), {{7}}, {{7}}}},
            {{}, {labels({4, 1, 5}, 2), {{3, 1}}, {{4, 3, 5}}}},
            {{}, {labels({2, 33}, 2), {{}}, {{2, 33}}}},
            {{}, {{{9}, 255, 258, true}, {{9}}, {{9}}}},  // any nonzero number is true
            {{}, {labels({0, 3}, 2), {{3}}, {{0, 3}}}}};
  }
};
PURSUIT_OPERATOR(Where)

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  require_defined("where", {&condition, &a, &b});
  if (is_floating(condition.dtype()) || a.dtype() != b.dtype() || condition.device() != a.device() ||
      a.device() != b.device())
    fail("where", "got " + condition.str() + ", " + a.str() + " and " + b.str() +
                      "; need a condition of integers and two tensors of one type, on one device");
  return apply(Where{}, condition, a, b);
}

}  // namespace pursuit
