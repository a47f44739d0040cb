#include "engine/operator/for_each.h"
#include "engine/operator/operator.h"
#include "engine/ops.h"

namespace pursuit {

namespace {

enum class Relation { eq, ne, lt, le };

template <class T>
struct Holds {
  const T *a, *b;
  uint8_t* y;
  Relation relation;
  HD void operator()(int64_t i, int64_t j, int64_t k) const {
    const auto p = up(a[i]), q = up(b[j]);
    y[k] = relation == Relation::eq   ? p == q
           : relation == Relation::ne ? p != q
           : relation == Relation::lt ? p < q
                                      : p <= q;
  }
};

// Calls f(Cpu{} or Cuda{}, Type<T>{}) for x of any type.
template <class F>
void dispatch_all(const Tensor& x, const char* where, const F& f) {
  if (is_floating(x.dtype())) return dispatch(x, where, f);
  dispatch(x.device(), where, [&](auto dev) {
    if (x.dtype() == DType::i64) return f(dev, Type<int64_t>{});
    if (x.dtype() == DType::i32) return f(dev, Type<int32_t>{});
    f(dev, Type<uint8_t>{});
  });
}

Tensor compare(const char* name, Relation relation, const Tensor& a, const Tensor& b) {
  require_defined(name, {&a, &b});
  if (a.dtype() != b.dtype() || a.device() != b.device())
    fail(name, "got " + a.str() + " and " + b.str() + "; bring them together with to()");
  const Shape shape = broadcast_shapes(a.shape(), b.shape(), name);
  const Tensor y = empty(shape, DType::u8, a.device());
  dispatch_all(a, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
    for_each(dev, layout_of(shape, a, b, y), Holds<T>{a.data<T>(), b.data<T>(), y.data<uint8_t>(), relation});
  });
  return y;
}

// A number beside a tensor, in its type. Throws Error if it is none of it: 0.5 beside integers.
Tensor beside(const char* name, double value, const Tensor& x) {
  require_defined(name, {&x});
  const Tensor scalar = full({}, value, x.dtype(), x.device());
  if (!is_floating(x.dtype()) && scalar.to(DType::f32).item() != float(value))
    fail(name, "got " + std::to_string(value) + " beside " + x.str() + ", need a number of its type");
  return scalar;
}

}  // namespace

Tensor operator==(const Tensor& a, const Tensor& b) { return compare("==", Relation::eq, a, b); }
Tensor operator!=(const Tensor& a, const Tensor& b) { return compare("!=", Relation::ne, a, b); }
Tensor operator<(const Tensor& a, const Tensor& b) { return compare("<", Relation::lt, a, b); }
Tensor operator<=(const Tensor& a, const Tensor& b) { return compare("<=", Relation::le, a, b); }
Tensor operator>(const Tensor& a, const Tensor& b) { return b < a; }
Tensor operator>=(const Tensor& a, const Tensor& b) { return b <= a; }
Tensor operator==(const Tensor& x, double c) { return x == beside("==", c, x); }
Tensor operator!=(const Tensor& x, double c) { return x != beside("!=", c, x); }
Tensor operator<(const Tensor& x, double c) { return x < beside("<", c, x); }
Tensor operator<=(const Tensor& x, double c) { return x <= beside("<=", c, x); }
Tensor operator>(const Tensor& x, double c) { return beside(">", c, x) < x; }
Tensor operator>=(const Tensor& x, double c) { return beside(">=", c, x) <= x; }

}  // namespace pursuit
