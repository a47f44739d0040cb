#include "engine/cpu/dense.h"
#include "engine/ops.h"

namespace pursuit {

// The activation exists for one chunk of rows at a time; backward computes it again from the pre-activation.
// T is the type of the factors, Y that of the residual and the result: T, or f32 beside bf16.
struct Mlp {
  static constexpr const char* name = "mlp";
  Tensor x = {}, w1 = {}, w2 = {};
  Tensor hidden = {};  // [rows, hidden], before the GELU
  bool has_residual = false;

  struct Sizes {
    int64_t rows, in, hidden, out;
  };
  Sizes sizes() const {
    return {x.numel() / std::max<int64_t>(1, w1.size(1)), w1.size(1), w1.size(0), w2.size(0)};
  }

  template <class T, class Y>
  static void kernel(Cpu, Type<T>, Type<Y>, const Mlp& op, const Tensor& b1, const Tensor& b2,
                     const Tensor& residual, const Tensor& y) {
    using R = compute_t<T>;
    const Sizes s = op.sizes();
    const T *x = op.x.data<T>(), *w1 = op.w1.data<T>(), *w2 = op.w2.data<T>();
    const Y* plus = residual.defined() ? residual.data<Y>() : nullptr;
    T* hidden = op.hidden.data<T>();
    Y* out = y.data<Y>();
    constexpr bool narrow = std::is_same_v<T, bf16>;
    const RightFactor<T> first(true, w1, s.in, s.in, s.hidden, 4),
        second(true, w2, s.hidden, s.hidden, s.out, 5);
    for_each_chunk(s.rows, [&](int64_t r, int64_t m) {
      R* wide = scratch<R>(1, m * s.hidden + (narrow ? m * (s.hidden + 2 * s.out) + s.hidden + s.out : 0));
      R* copy = wide + m * s.hidden;
      const Rows<R> h = target_rows(hidden + r * s.hidden, s.hidden, s.hidden, copy);
      const Rows<const R> bias1 =
          read_rows(b1.data<T>(), s.hidden, 1, s.hidden, copy + m * (s.hidden + 2 * s.out));
      first.multiply(m, x + r * s.in, s.in, h.p, s.hidden);
      rows<R>().bias_gelu_rows(h.p, bias1.p, wide, m, s.hidden, s.hidden, s.hidden);
      store_rows(hidden + r * s.hidden, s.hidden, m, s.hidden, h);

      R* after = copy + m * s.hidden;
      const Rows<R> to = target_rows(out + r * s.out, s.out, s.out, after);
      const Rows<const R> bias2 = read_rows(b2.data<T>(), s.out, 1, s.out, after + 2 * m * s.out + s.hidden);
      const Rows<const R> add =
          plus ? read_rows(plus + r * s.out, s.out, m, s.out, after + m * s.out) : Rows<const R>{};
      if constexpr (narrow) {
        bf16* activation = scratch<bf16>(2, m * s.hidden);
        rows<R>().f32_to_bf16(wide, words(activation), m * s.hidden);
        second.multiply(m, activation, s.hidden, to.p, s.out);
      } else {
        second.multiply(m, wide, s.hidden, to.p, s.out);
      }
      rows<R>().bias_rows(to.p, bias2.p, add.p, m, s.out, s.out, s.out);
      store_rows(out + r * s.out, s.out, m, s.out, to);
    });
  }

  // activation and gh receive gelu(hidden) and the gradient of hidden, [rows, hidden].
  template <class T>
  static void gradient(Cpu, const Mlp& op, const T* gy, T* activation, T* gh) {
    using R = compute_t<T>;
    const Sizes s = op.sizes();
    const T *hidden = op.hidden.data<T>(), *w2 = op.w2.data<T>();
    constexpr bool narrow = std::is_same_v<T, bf16>;
    const RightFactor<T> second(false, w2, s.hidden, s.out, s.hidden, 4);
    for_each_chunk(s.rows, [&](int64_t r, int64_t m) {
      const int64_t at = r * s.hidden, size = m * s.hidden;
      R* wide = scratch<R>(1, narrow ? 3 * size : 0);
      const Rows<const R> h = read_rows(hidden + at, s.hidden, m, s.hidden, wide);
      const Rows<R> g = target_rows(gh + at, s.hidden, s.hidden, wide + size);
      const Rows<R> act = target_rows(activation + at, s.hidden, s.hidden, wide + 2 * size);
      second.multiply(m, gy + r * s.out, s.out, g.p, s.hidden);
      rows<R>().gelu_grad_rows(h.p, g.p, act.p, m, s.hidden, s.hidden, s.hidden, s.hidden);
      store_rows(gh + at, s.hidden, m, s.hidden, g);
      store_rows(activation + at, s.hidden, m, s.hidden, act);
    });
  }

  Tensor forward(const Tensor& in, const Tensor& first, const Tensor& b1, const Tensor& second,
                 const Tensor& b2, const Tensor& residual) {
    x = in.contiguous();
    w1 = first.contiguous();
    w2 = second.contiguous();
    has_residual = residual.defined();
    hidden = empty({sizes().rows, w1.size(0)}, x.dtype(), x.device());
    Shape shape = x.shape();
    shape.back() = w2.size(0);
    const Tensor plus = has_residual ? residual.contiguous() : Tensor();
    Tensor y = empty(shape, has_residual ? plus.dtype() : x.dtype(), x.device());
    const Tensor bias1 = b1.contiguous(), bias2 = b2.contiguous();
    dispatch(x, y, name, [&]<class Dev, class T, class Y>(Dev dev, Type<T> type, Type<Y> result) {
      launch<Mlp>(dev, type, result, *this, bias1, bias2, plus, y);
    });
    return y;
  }

  Grads backward(const Tensor& gy, Needs needs) {
    const Sizes s = sizes();
    const Tensor g = gy.to(x.dtype()).contiguous();
    Tensor activation = empty_like(hidden), gh = empty_like(hidden);
    Tensor gx = needs[0] ? empty_like(x) : Tensor();
    Tensor gw1 = empty_like(w1), gw2 = empty_like(w2);
    Tensor gb1 = empty({s.hidden}, x.dtype(), x.device()), gb2 = empty({s.out}, x.dtype(), x.device());
    dispatch(x, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      const T* pg = g.data<T>();
      launch_gradient<Mlp>(dev, *this, pg, activation.data<T>(), gh.data<T>());
      if constexpr (std::is_same_v<Dev, Cpu>) {
        const T *ph = gh.data<T>(), *pa = activation.data<T>();
        dense_weight_gradient(pg, pa, gw2.data<T>(), s.rows, s.hidden, s.out);
        dense_bias_gradient(pg, gb2.data<T>(), s.rows, s.out);
        dense_weight_gradient(ph, static_cast<const T*>(x.data<T>()), gw1.data<T>(), s.rows, s.in, s.hidden);
        dense_bias_gradient(ph, gb1.data<T>(), s.rows, s.hidden);
        if (needs[0])
          dense_input_gradient(ph, static_cast<const T*>(w1.data<T>()), gx.data<T>(), s.rows, s.in, s.hidden);
      }
    });
    return {gx, gw1, gb1, gw2, gb2, needs[5] && has_residual ? gy : Tensor()};
  }

  Tensor reference(const Tensor& in, const Tensor& first, const Tensor& b1, const Tensor& second,
                   const Tensor& b2, const Tensor& residual) const {
    return linear(gelu(linear(in, first, b1)), second, b2, residual);
  }
  static std::vector<Sample<Mlp>> samples() {
    return {{{}, {{{3, 5}}, {{7, 5}}, {{7}}, {{4, 7}}, {{4}}, left_out()}},
            {{}, {{{2, 9, 12}}, {{33, 12}}, {{33}}, {{12, 33}}, {{12}}, {{2, 9, 12}}}},
            {{}, {{{2, 9, 12}}, {{33, 12}}, {{33}}, {{12, 33}}, {{12}}, wide({{2, 9, 12}})}},
            {{}, {{{600, 3}}, {{5, 3}}, {{5}}, {{2, 5}}, {{2}}, left_out()}},
            {{}, {{{0, 5}}, {{7, 5}}, {{7}}, {{4, 7}}, {{4}}, left_out()}}};
  }
};
PURSUIT_OPERATOR(Mlp)

Tensor mlp(const Tensor& x, const Tensor& w1, const Tensor& b1, const Tensor& w2, const Tensor& b2,
           const Tensor& residual) {
  if (w1.ndim() != 2 || w2.ndim() != 2 || x.ndim() < 1 || x.size(-1) != w1.size(1) ||
      w2.size(1) != w1.size(0) || b1.shape() != Shape{w1.size(0)} || b2.shape() != Shape{w2.size(0)})
    fail("mlp", "got x " + x.str() + ", w1 " + w1.str() + ", b1 " + b1.str() + ", w2 " + w2.str() + ", b2 " +
                    b2.str() + ", need [..., in], [hidden, in], [hidden], [out, hidden], [out]");
  Shape shape = x.shape();
  shape.back() = w2.size(0);
  if (residual.defined() && (residual.shape() != shape || !fits_beside(residual.dtype(), x.dtype())))
    fail("mlp", "residual is " + residual.str() + ", need " + name_of(x.dtype()) + shape.str() +
                    " or f32 beside bf16");
  for (const Tensor* t : {&w1, &b1, &w2, &b2})
    if (t->dtype() != x.dtype()) fail("mlp", "got x " + x.str() + " and a " + t->str());
  return apply(Mlp{}, x, w1, b1, w2, b2, residual);
}

}  // namespace pursuit
