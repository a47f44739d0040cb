#pragma once
#include "engine/cpu/parallel.h"
#include "engine/operator/for_each.h"
#include "engine/operator/operator.h"
#include "engine/ops.h"

// An elementwise operator is one functor for all dtypes and both backends; strides, broadcasting and autograd
// are handled here.
namespace pursuit {

struct NoParams {};

// y = f(x). Op defines `A fwd(A x)` and `A bwd(A x, A y)` = dy/dx, each with another `const Params&` if it
// has parameters (plain numbers, passed to GPU kernels by value). If bwd reads only one of x and y, or
// neither, `static constexpr Saves saves` avoids saving the other; bwd then gets an arbitrary number for it.
// With `static constexpr bool masks = true` a bwd of 0 passes nothing on, even of an infinite gradient.
// `on_row(const T* x, T* y, int64_t n)` is a vectorised f of one dtype on the CPU, for contiguous tensors.
enum class Saves { both, x, y, none };
template <class Op> constexpr Saves saved_by() {
  if constexpr (requires { Op::saves; })
    return Op::saves;
  else
    return Saves::both;
}
// The chain rule. Where a mask is 0, 0 x inf would be NaN.
template <class Op, class A> HD A chain(A gy, A derivative) {
  if constexpr (requires { Op::masks; })
    return derivative == 0 ? A(0) : gy * derivative;
  else
    return gy * derivative;
}
template <class Op, class Params> struct UnaryForward {
  Params p;
  template <class T> HD T operator()(T x) const {
    if constexpr (std::is_same_v<Params, NoParams>)
      return downcast<T>(Op::fwd(upcast(x)));
    else
      return downcast<T>(Op::fwd(upcast(x), p));
  }
};

template <class Op, class Params> struct UnaryBackward {
  Params p;
  template <class T> HD T operator()(T x, T y, T gy) const {
    if constexpr (std::is_same_v<Params, NoParams>)
      return downcast<T>(chain<Op>(upcast(gy), Op::bwd(upcast(x), upcast(y))));
    else
      return downcast<T>(chain<Op>(upcast(gy), Op::bwd(upcast(x), upcast(y), p)));
  }
};

template <class Op, class Params = NoParams> struct Unary {
  Params params = {};
  Tensor x = {}, y = {};

  Tensor forward(const Tensor& in) {
    const Tensor out = empty_like(in);
    dispatch(in, Op::name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      if constexpr (std::is_same_v<Dev, Cpu> && requires(const T* from, T* to) { Op::on_row(from, to, 0); })
        if (in.is_contiguous()) return on_rows(in.data<T>(), out.data<T>(), in.numel());
      for_each(dev, layout_of(in.shape(), out, in),
               map_to(out.data<T>(), UnaryForward<Op, Params>{params}, in.data<T>()));
    });
    if (saved_by<Op>() == Saves::both || saved_by<Op>() == Saves::x) x = in;
    if (saved_by<Op>() == Saves::both || saved_by<Op>() == Saves::y) y = out;
    return out;
  }
  template <class T> static void on_rows(const T* from, T* to, int64_t n) {
    parallel_for(n, 4096, [&](int64_t b, int64_t e) { Op::on_row(from + b, to + b, e - b); });
  }
  Grads backward(const Tensor& gy, Needs) {
    const Tensor &p = x.defined() ? x : gy, &q = y.defined() ? y : gy, gx = empty_like(gy);
    dispatch(gy, Op::name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      for_each(
          dev, layout_of(gy.shape(), gx, p, q, gy),
          map_to(gx.data<T>(), UnaryBackward<Op, Params>{params}, p.data<T>(), q.data<T>(), gy.data<T>()));
    });
    return {gx};
  }
};

// y = f(a, b) with broadcasting. Op defines `A fwd(A a, A b)` and the derivatives `A da(A a, A b)` and `A
// db(A a, A b)`, each with another `const Params&` if it has parameters. bf16 with f32 is computed in f32 and
// gives f32; gradients are returned in each input's dtype. Other mixtures are errors. If a derivative does
// not read both inputs, `static constexpr Reads da_reads` or `db_reads` avoids saving the other; the
// derivative then gets an arbitrary number for it. `masks` is as above.
enum class Reads { both, a, b, none };
template <class Op, class Params = NoParams> struct BinaryForward {
  Params p = {};
  template <class T> HD T operator()(T a, T b) const {
    if constexpr (std::is_same_v<Params, NoParams>)
      return downcast<T>(Op::fwd(upcast(a), upcast(b)));
    else
      return downcast<T>(Op::fwd(upcast(a), upcast(b), p));
  }
};

template <class Op, class Params, bool ForA> struct BinaryBackward {
  Params p;
  template <class T> HD T operator()(T a, T b, T gy) const {
    return downcast<T>(chain<Op>(upcast(gy), derivative(upcast(a), upcast(b))));
  }
  template <class A> HD A derivative(A left, A right) const {
    if constexpr (std::is_same_v<Params, NoParams>)
      return ForA ? Op::da(left, right) : Op::db(left, right);
    else
      return ForA ? Op::da(left, right, p) : Op::db(left, right, p);
  }
};

template <class Op, class Params = NoParams> struct Binary {
  Params params = {};
  static constexpr Reads da_reads = Reads::both, db_reads = Reads::both;
  struct Kind {
    Shape shape;
    DType dtype = DType::f32;
  };
  Kind of_a = {}, of_b = {};
  Tensor a = {}, b = {};
  Needs needs = {};

  Tensor forward(const Tensor& left, const Tensor& right) {
    of_a = {left.shape(), left.dtype()};
    of_b = {right.shape(), right.dtype()};
    for (const Reads reads : {needs[0] ? Op::da_reads : Reads::none, needs[1] ? Op::db_reads : Reads::none}) {
      if (reads == Reads::both || reads == Reads::a) a = left;
      if (reads == Reads::both || reads == Reads::b) b = right;
    }
    const Shape shape = broadcast_shapes(left.shape(), right.shape(), Op::name);
    Tensor y = empty(shape, common_dtype(left, right), left.device());
    const Tensor p = left.to(y.dtype()), q = right.to(y.dtype());
    dispatch(y, Op::name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      for_each(dev, layout_of(shape, y, p, q),
               map_to(y.data<T>(), BinaryForward<Op, Params>{params}, p.data<T>(), q.data<T>()));
    });
    return y;
  }
  Grads backward(const Tensor& gy, Needs needs) {
    return {needs[0] ? like(of_a, gradient<true>(gy)) : Tensor(),
            needs[1] ? like(of_b, gradient<false>(gy)) : Tensor()};
  }

 protected:
  // Reduces and casts a gradient of the result's shape and dtype to those of an input.
  static Tensor like(const Kind& in, const Tensor& g) { return sum_to(g, in.shape).to(in.dtype); }

 private:
  static DType common_dtype(const Tensor& a, const Tensor& b) {
    const bool a_fits = fits_beside(a.dtype(), b.dtype());
    if (!(a_fits || fits_beside(b.dtype(), a.dtype())) || a.device() != b.device())
      fail(Op::name, "got " + a.str() + " and " + b.str() + "; bring them together with to()");
    return a_fits ? a.dtype() : b.dtype();
  }

  template <bool ForA> Tensor gradient(const Tensor& gy) const {
    Tensor g = empty_like(gy);
    const Tensor p = a.defined() ? a.to(gy.dtype()) : gy, q = b.defined() ? b.to(gy.dtype()) : gy;
    dispatch(gy, Op::name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      for_each(dev, layout_of(gy.shape(), g, p, q, gy),
               map_to(g.data<T>(), BinaryBackward<Op, Params, ForA>{params}, p.data<T>(), q.data<T>(),
                      gy.data<T>()));
    });
    return g;
  }
};

// The shapes every elementwise operator is tested with.
template <class Op> std::vector<Sample<Op>> unary_samples(double lo, double hi, double tolerance = 1) {
  return {{{}, {{{7}, lo, hi}}, tolerance},
          {{}, {{{3, 5}, lo, hi}}, tolerance},
          {{}, {{{0}, lo, hi}}, tolerance},
          {{}, {{{2, 1, 129}, lo, hi}}, tolerance}};
}
template <class Op> std::vector<Sample<Op>> binary_samples(double lo, double hi) {
  return {{{}, {{{7}, lo, hi}, {{7}, lo, hi}}},
          {{}, {{{4, 1, 5}, lo, hi}, {{3, 1}, lo, hi}}},
          {{}, {{{2, 33}, lo, hi}, {{}, lo, hi}}},
          {{}, {{{0, 3}, lo, hi}, {{3}, lo, hi}}},
          {{}, {wide({{4, 1, 5}, lo, hi}), {{3, 5}, lo, hi}}},
          {{}, {{{2, 9}, lo, hi}, wide({{9}, lo, hi})}}};
}

}  // namespace pursuit
