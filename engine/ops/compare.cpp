#include "engine/core/shapes_only.h"
#include "engine/operator/for_each.h"
#include "engine/operator/operator.h"
#include "engine/ops.h"

namespace pursuit {

namespace {

// Calls f(Cpu{} or Cuda{}, Type<T>{}) for x of any type.
template <class F> void dispatch_all(const Tensor& x, const char* where, const F& f) {
  if (is_floating(x.dtype())) return dispatch(x, where, f);
  dispatch(x.device(), where, [&](auto dev) {
    if (x.dtype() == DType::i64) return f(dev, Type<int64_t>{});
    if (x.dtype() == DType::i32) return f(dev, Type<int32_t>{});
    if (x.dtype() == DType::i8) return f(dev, Type<int8_t>{});
    f(dev, Type<uint8_t>{});
  });
}

// Op defines `bool holds(A a, A b)`. Numbers are compared as stored: bf16 is exact in f32.
template <class Op> struct Holds {
  template <class T> HD uint8_t operator()(T a, T b) const { return Op::holds(upcast(a), upcast(b)); }
};

template <class Op> struct Comparison {
  Tensor forward(const Tensor& a, const Tensor& b) {
    if (a.dtype() != b.dtype() || a.device() != b.device())
      fail(Op::name, "got " + a.str() + " and " + b.str() + "; bring them together with to()");
    const Shape shape = broadcast_shapes(a.shape(), b.shape(), Op::name);
    const Tensor y = empty(shape, DType::u8, a.device());
    dispatch_all(a, Op::name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      for_each(dev, layout_of(shape, y, a, b),
               map_to(y.data<uint8_t>(), Holds<Op>{}, a.data<T>(), b.data<T>()));
    });
    return y;
  }
  Grads backward(const Tensor&, Needs) { return {Tensor(), Tensor()}; }
  static std::vector<Sample<Op>> samples() {
    return {{{}, {{{7}}, {{7}}}},
            {{}, {{{4, 1, 5}}, {{3, 1}}}},
            {{}, {{{3, 4}, 0, 0}, {{4}, 0, 0}}},  // ties
            {{}, {labels({2, 33}, 3), labels({33}, 3)}},
            {{}, {{{0, 3}}, {{3}}}}};
  }
};

struct Equal : Comparison<Equal> {
  static constexpr const char* name = "eq";
  template <class A> HD static bool holds(A a, A b) { return a == b; }
};
PURSUIT_OPERATOR(Equal)

struct NotEqual : Comparison<NotEqual> {
  static constexpr const char* name = "ne";
  template <class A> HD static bool holds(A a, A b) { return a != b; }
};
PURSUIT_OPERATOR(NotEqual)

struct Less : Comparison<Less> {
  static constexpr const char* name = "lt";
  template <class A> HD static bool holds(A a, A b) { return a < b; }
};
PURSUIT_OPERATOR(Less)

struct LessEqual : Comparison<LessEqual> {
  static constexpr const char* name = "le";
  template <class A> HD static bool holds(A a, A b) { return a <= b; }
};
PURSUIT_OPERATOR(LessEqual)

// A number as a tensor of x's dtype. Throws Error if it is not representable: 0.5 for integers.
Tensor beside(const char* name, double value, const Tensor& x) {
  require_defined(name, {&x});
  // Compared on the CPU, so that a GPU is not waited for.
  if (!is_floating(x.dtype()) && !shapes_only() && full({}, value, x.dtype()).item() != value)
    fail(name, "got " + std::to_string(value) + " beside " + x.str() + ", need a number of its type");
  return full({}, value, x.dtype(), x.device());
}

}  // namespace

Tensor operator==(const Tensor& a, const Tensor& b) { return apply(Equal{}, a, b); }
Tensor operator!=(const Tensor& a, const Tensor& b) { return apply(NotEqual{}, a, b); }
Tensor operator<(const Tensor& a, const Tensor& b) { return apply(Less{}, a, b); }
Tensor operator<=(const Tensor& a, const Tensor& b) { return apply(LessEqual{}, a, b); }
Tensor operator>(const Tensor& a, const Tensor& b) { return b < a; }
Tensor operator>=(const Tensor& a, const Tensor& b) { return b <= a; }
Tensor operator==(const Tensor& x, double c) { return x == beside("eq", c, x); }
Tensor operator!=(const Tensor& x, double c) { return x != beside("ne", c, x); }
Tensor operator<(const Tensor& x, double c) { return x < beside("lt", c, x); }
Tensor operator<=(const Tensor& x, double c) { return x <= beside("le", c, x); }
Tensor operator>(const Tensor& x, double c) { return beside("lt", c, x) < x; }
Tensor operator>=(const Tensor& x, double c) { return beside("le", c, x) <= x; }

}  // namespace pursuit
