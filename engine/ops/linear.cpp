#include "cuda/dense.cuh"
#include "engine/cpu/dense.h"
#include "engine/operator/operator.h"
#include "engine/operator/residual.h"
#include "engine/ops.h"

namespace pursuit {

// T is the type of the operands, Y that of the residual and the result: T, or f32 if T is bf16.
struct Linear {
  static constexpr const char* name = "linear";
  Tensor kept_x = {}, kept_weight = {};  // each is saved for the other's gradient
  Shape shape_of_x = {}, shape_of_weight = {};
  DType factors = DType::f32;
  bool has_bias = false, has_residual = false;
  Needs needs = {};

  template <class T, class Y> static void kernel(Cpu, const T* x, const T* w, const T* bias,
                                                 const Y* residual, Y* y, int64_t n, int64_t in,
                                                 int64_t out) {
    using R = compute_t<T>;
    const RightFactor<T> weight(layout_of_weight(n, true), true, w, in, in, out, 4);
    for_each_chunk<T>(n, [&](int64_t r, int64_t m) {
      const Rows<R> sums = target_rows(y + r * out, out, out, scratch<R>(1, copied<Y>(m * out)));
      weight.multiply(m, x + r * in, in, sums.p, out);
      const R* const b = bias ? read_rows(bias, out, 1, out, scratch<R>(6, copied<T>(out))).p : nullptr;
      store_sums(sums, b, residual ? residual + r * out : nullptr, y + r * out, m, out);
    });
  }
#ifdef PURSUIT_GPU
  template <class T, class Y> static void kernel(Cuda, const T* x, const T* w, const T* bias,
                                                 const Y* residual, Y* y, int64_t n, int64_t in,
                                                 int64_t out) {
    cuda::dense(x, w, bias, residual, y, n, in, out);
  }
#endif

  Tensor forward(const Tensor& in, const Tensor& w, const Tensor& bias, const Tensor& residual) {
    const Tensor x = in.contiguous(), weight = w.contiguous();
    if (needs[0]) kept_weight = weight;
    if (needs[1]) kept_x = x;
    shape_of_x = x.shape();
    shape_of_weight = weight.shape();
    factors = x.dtype();
    has_bias = bias.defined();
    has_residual = residual.defined();
    Shape shape = x.shape();
    shape.back() = w.size(0);
    const Tensor plus = has_residual ? residual.contiguous() : Tensor(),
                 b = has_bias ? bias.contiguous() : Tensor();
    Tensor y = empty(shape, has_residual ? plus.dtype() : x.dtype(), x.device());
    const int64_t n_in = w.size(1), n_out = w.size(0), n = x.numel() / n_in;
    dispatch(x, y, name, [&]<class Dev, class T, class Y>(Dev dev, Type<T>, Type<Y>) {
      const T* pb = has_bias ? b.data<T>() : nullptr;
      const Y* pr = has_residual ? plus.data<Y>() : nullptr;
      launch<Linear>(dev, static_cast<const T*>(x.data<T>()), static_cast<const T*>(weight.data<T>()), pb, pr,
                     y.data<Y>(), n, n_in, n_out);
    });
    return y;
  }

  template <class T> static void gradient(Cpu, const T* gy, const T* x, const T* w, T* gx, T* gw, T* gb,
                                          int64_t n, int64_t in, int64_t out) {
    if (gx) dense_input_gradient(gy, w, gx, n, in, out);
    if (gw) dense_weight_gradient(gy, x, gw, n, in, out);
    if (gb) dense_bias_gradient(gy, gb, n, out);
  }
#ifdef PURSUIT_GPU
  template <class T> static void gradient(Cuda, const T* gy, const T* x, const T* w, T* gx, T* gw, T* gb,
                                          int64_t n, int64_t in, int64_t out) {
    if (gx) cuda::dense_input_gradient(gy, w, gx, n, in, out);
    cuda::dense_parameter_gradients(gy, x, gw, gb, n, in, out);
  }
#endif

  Grads backward(const Tensor& gy, Needs) {
    const Tensor g = gy.to(factors).contiguous();
    const int64_t in = shape_of_weight[1], out = shape_of_weight[0], n = shape_of_x.numel() / in;
    const auto wanted = [&](bool needed, const Shape& shape) {
      return needed ? empty(shape, factors, gy.device()) : Tensor();
    };
    const Tensor gx = wanted(needs[0], shape_of_x), gw = wanted(needs[1], shape_of_weight),
                 gb = wanted(needs[2] && has_bias, {out});
    dispatch(g, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      const auto pointer = [](const Tensor& t) { return t.defined() ? t.data<T>() : nullptr; };
      launch_gradient<Linear>(dev, static_cast<const T*>(g.data<T>()), static_cast<const T*>(pointer(kept_x)),
                              static_cast<const T*>(pointer(kept_weight)), pointer(gx), pointer(gw),
                              pointer(gb), n, in, out);
    });
    return {gx, gw, gb, needs[3] && has_residual ? gy : Tensor()};
  }

  Tensor reference(const Tensor& in, const Tensor& w, const Tensor& bias, const Tensor& residual) const {
    Tensor y = matmul(in, w.transpose(0, 1));
    if (bias.defined()) y = y + bias;
    return residual.defined() ? y + residual : y;
  }
  static std::vector<Sample<Linear>> samples() {
    return {{{}, {{{3, 5}}, {{4, 5}}, {{4}}, left_out()}},
            {{}, {{{2, 9, 33}}, {{17, 33}}, {{17}}, {{2, 9, 17}}}},
            {{}, {{{2, 9, 33}}, {{17, 33}}, {{17}}, wide({{2, 9, 17}})}},
            {{}, {{{129, 65}}, {{7, 65}}, left_out(), left_out()}},
            {{}, {{{21, 9}}, {{6, 9}}, left_out(), wide({{21, 6}})}},
            {{}, {{{70, 3}}, {{5, 3}}, {{5}}, left_out()}},
            {{}, {{{70, 4}}, {{264, 4}}, {{264}}, wide({{70, 264}})}},
            {{}, {{{0, 5}}, {{4, 5}}, {{4}}, left_out()}}};
  }
};
PURSUIT_OPERATOR(Linear)

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& residual) {
  if (x.ndim() < 1 || weight.ndim() != 2 || x.size(-1) != weight.size(1) || x.size(-1) < 1 ||
      x.dtype() != weight.dtype() || x.device() != weight.device())
    fail("linear", "got x " + x.str() + " and weight " + weight.str() +
                       ", need [..., in] and [out, in] of one dtype and device, in at least 1");
  if (bias.defined() &&
      (bias.shape() != Shape{weight.size(0)} || bias.dtype() != x.dtype() || bias.device() != x.device()))
    fail("linear", "bias is " + bias.str() + ", need " + name_of(x.dtype()) + Shape{weight.size(0)}.str() +
                       " on " + x.device().name());
  Shape shape = x.shape();
  shape.back() = weight.size(0);
  require_residual("linear", residual, shape, x);
  return apply(Linear{}, x, weight, bias, residual);
}

}  // namespace pursuit
