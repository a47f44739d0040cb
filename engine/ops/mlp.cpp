#include "engine/ops/mlp.h"

#include <cstdlib>
#include <string>

#include "cuda/dense.cuh"
#include "engine/cpu/dense.h"
#include "engine/operator/residual.h"

namespace pursuit {

namespace {

template <class T> T* pointer(const Tensor& t) { return t.defined() ? t.data<T>() : nullptr; }

// On the CPU backward processes blocks of rows, so that GELU's result and the gradient of the
// pre-activation stay in the cache. bf16 processes all rows at once: a sum over blocks would be rounded for
// each block.
constexpr int64_t block_units = 64;

}  // namespace

int64_t Mlp::rows_at_once() const {
  const int64_t units = units_of(sizes.rows);
  return std::min(units, hidden.dtype() == DType::bf16 ? units : block_units) * dense_unit;
}

template <class T, class Y> void Mlp::kernel(Cpu, Type<T>, Type<Y>, const Mlp& op, const Tensor& b1,
                                             const Tensor& b2, const Tensor& residual, const Tensor& y) {
  using R = compute_t<T>;
  const Sizes s = op.sizes;
  const T *x = op.x.data<T>(), *w1 = op.w1.data<T>(), *w2 = op.w2.data<T>();
  const Y* plus = residual.defined() ? residual.data<Y>() : nullptr;
  T* hidden = op.hidden.defined() ? op.hidden.data<T>() : nullptr;
  Y* out = y.data<Y>();
  constexpr bool narrow = std::is_same_v<T, bf16>;
  const Layout layout = layout_of_weight(s.rows, true);
  const RightFactor<T> first(layout, true, w1, s.in, s.in, s.hidden, 4),
      second(layout, true, w2, s.hidden, s.hidden, s.out, 5);
  const bool relu = op.activation == Activation::relu;
  for_each_chunk<T>(s.rows, [&](int64_t r, int64_t m) {
    const int64_t size = m * s.hidden;
    R* const biases = scratch<R>(6, copied<T>(s.hidden + s.out));
    const R* const bias1 = read_rows(b1.data<T>(), s.hidden, 1, s.hidden, biases).p;
    const R* const bias2 = read_rows(b2.data<T>(), s.out, 1, s.out, biases + copied<T>(s.hidden)).p;
    const Rows<R> before =
        hidden ? target_rows(hidden + r * s.hidden, s.hidden, s.hidden, scratch<R>(1, copied<T>(size)))
               : Rows<R>{scratch<R>(1, size), s.hidden};
    // Without a copy the activation replaces its argument; not GELU's, if backward reads that.
    const bool in_place = !narrow && (relu || !hidden);
    T* active = scratch<T>(2, in_place ? 0 : size);
    if constexpr (!narrow)
      if (in_place) active = before.p;

    first.multiply(m, x + r * s.in, s.in, before.p, s.hidden);
    for_each_group<T>(m, s.hidden, [&](int64_t i, int64_t count) {
      const int64_t at = i * s.hidden;
      R *const h = before.at(i), *result = h;
      if (relu) {
        rows<R>().bias_relu_rows(h, bias1, count, s.hidden, s.hidden);
      } else {
        result = target_rows(active + at, s.hidden, s.hidden, scratch<R>(3, copied<T>(count * s.hidden))).p;
        rows<R>().bias_gelu_rows(h, bias1, result, count, s.hidden, s.hidden, s.hidden);
      }
      if (hidden) store_rows(hidden + r * s.hidden + at, s.hidden, count, s.hidden, Rows<R>{h, s.hidden});
      store_rows(active + at, s.hidden, count, s.hidden, Rows<R>{result, s.hidden});
    });
    const Rows<R> sums = target_rows(out + r * s.out, s.out, s.out, scratch<R>(7, copied<Y>(m * s.out)));
    second.multiply(m, active, s.hidden, sums.p, s.out);
    store_sums(sums, bias2, plus ? plus + r * s.out : nullptr, out + r * s.out, m, s.out);
  });
}

#ifdef PURSUIT_GPU
template <class T, class Y> void Mlp::kernel(Cuda, Type<T>, Type<Y>, const Mlp& op, const Tensor& b1,
                                             const Tensor& b2, const Tensor& residual, const Tensor& y) {
  const Sizes s = op.sizes;
  const bool relu = op.activation == Activation::relu;
  T *hidden = pointer<T>(op.hidden), *active = pointer<T>(op.active);
  const T *x = op.x.data<T>(), *w1 = op.w1.data<T>(), *w2 = op.w2.data<T>();
  const Y* plus = residual.defined() ? residual.data<Y>() : nullptr;
  if constexpr (std::is_same_v<T, bf16>)
    if (op.in_one_kernel) {
      const auto forward = relu ? cuda::mlp_forward<cuda::ReluOf, Y> : cuda::mlp_forward<cuda::GeluOf, Y>;
      return forward(x, w1, b1.data<T>(), w2, b2.data<T>(), plus, hidden, y.data<Y>(), op.shape_of_kernel());
    }
  cuda::dense<T, T>(x, w1, b1.data<T>(), nullptr, hidden, s.rows, s.in, s.hidden);
  const auto activate = relu ? cuda::activate<cuda::ReluOf, T> : cuda::activate<cuda::GeluOf, T>;
  activate(hidden, active, s.rows * s.hidden);
  cuda::dense<T, Y>(active, w2, b2.data<T>(), plus, y.data<Y>(), s.rows, s.hidden, s.out);
}
#endif

template <class T> void Mlp::gradient(Cpu, const Mlp& op, const T* gy, const Wanted& wanted) {
  using R = compute_t<T>;
  const Sizes s = op.sizes;
  const T *w1 = pointer<T>(op.w1), *w2 = op.w2.data<T>(), *x = pointer<T>(op.x);
  T* hidden = op.hidden.data<T>();
  const bool relu = op.activation == Activation::relu;
  constexpr bool narrow = std::is_same_v<T, bf16>;
  const int64_t units = units_of(s.rows), block = narrow ? std::max<int64_t>(1, units) : block_units,
                most = op.rows_at_once();
  const Tensor activations = relu ? Tensor() : empty({most, s.hidden}, op.hidden.dtype()),
               hidden_gradients = empty({most, s.hidden}, op.hidden.dtype());
  T* gh = hidden_gradients.data<T>();
  T *gw1 = pointer<T>(wanted.w1), *gb1 = pointer<T>(wanted.b1), *gw2 = pointer<T>(wanted.w2),
    *gx = pointer<T>(wanted.x);
  const Layout layout = layout_of_weight(s.rows, false);
  const RightFactor<T> second(layout, false, w2, s.hidden, s.out, s.hidden, 4),
      first(layout, false, w1, s.in, gx ? s.hidden : 0, s.in, 5);
  for_each_piece(0, units, block, s.rows, [&](int64_t begin, int64_t count) {
    T* active = relu ? hidden + begin * s.hidden : activations.data<T>();
    for_each_chunk<T>(count, [&](int64_t i, int64_t m) {
      const int64_t r = begin + i, at = i * s.hidden;
      const Rows<R> sums = target_rows(gh + at, s.hidden, s.hidden, scratch<R>(1, copied<T>(m * s.hidden)));
      second.multiply(m, gy + r * s.out, s.out, sums.p, s.hidden);
      for_each_group<T>(m, s.hidden, [&](int64_t j, int64_t rows_here) {
        const int64_t from = at + j * s.hidden, size = copied<T>(rows_here * s.hidden);
        R *const wide = scratch<R>(3, 2 * size), *const g = sums.at(j);
        const R* const h = read_rows(hidden + (r + j) * s.hidden, s.hidden, rows_here, s.hidden, wide).p;
        if (relu) {
          rows<R>().relu_grad_rows(h, g, rows_here, s.hidden, s.hidden, s.hidden);
        } else {
          const Rows<R> act = target_rows(active + from, s.hidden, s.hidden, wide + size);
          rows<R>().gelu_grad_rows(h, g, act.p, rows_here, s.hidden, s.hidden, s.hidden, s.hidden);
          store_rows(active + from, s.hidden, rows_here, s.hidden, act);
        }
        store_rows(gh + from, s.hidden, rows_here, s.hidden, Rows<R>{g, s.hidden});
      });
      if (gx) first.multiply(m, gh + at, s.hidden, gx + r * s.in, s.in);
    });
    const R beta = begin > 0 ? 1 : 0;
    if (gw2) dense_weight_gradient<T>(gy + begin * s.out, active, gw2, count, s.hidden, s.out, beta);
    if (gw1) dense_weight_gradient<T>(gh, x + begin * s.in, gw1, count, s.in, s.hidden, beta);
    if (gb1) dense_bias_gradient<T>(gh, gb1, count, s.hidden, begin > 0);
  });
  if (T* gb2 = pointer<T>(wanted.b2)) dense_bias_gradient(gy, gb2, s.rows, s.out);
}
#ifdef PURSUIT_GPU
// gh = f'(hidden) (gy w2), and of it the gradients of x and b1; also `result` = f(hidden), if it was not
// saved.
template <class T> void Mlp::gradient_before_w2(const T* gy, T* gh, T* result, const Wanted& wanted) const {
  const Sizes s = sizes;
  const T *before = hidden.data<T>(), *first = pointer<T>(w1), *second = w2.data<T>();
  T *gx = pointer<T>(wanted.x), *gb1 = pointer<T>(wanted.b1);
  const bool relu = activation == Activation::relu;
  if constexpr (std::is_same_v<T, bf16>)
    if (in_one_kernel) {
      const auto gradient = relu ? cuda::mlp_gradient<cuda::ReluOf> : cuda::mlp_gradient<cuda::GeluOf>;
      return gradient(gy, before, first, second, gh, result, gx, gb1, shape_of_kernel());
    }
  const auto gradient =
      relu ? cuda::activation_gradient<cuda::ReluOf, T> : cuda::activation_gradient<cuda::GeluOf, T>;
  cuda::dense_input_gradient(gy, second, gh, s.rows, s.hidden, s.out);
  gradient(before, gh, gb1, s.rows, s.hidden);
  if (gx) cuda::dense_input_gradient(gh, first, gx, s.rows, s.in, s.hidden);
}
template <class T> void Mlp::gradient(Cuda, const Mlp& op, const T* gy, const Wanted& wanted) {
  const Sizes s = op.sizes;
  const Tensor hidden_gradient = empty_like(op.hidden),
               result = op.makes_result() ? empty_like(op.hidden) : op.active;
  T* gh = hidden_gradient.data<T>();
  op.gradient_before_w2(gy, gh, pointer<T>(result), wanted);
  cuda::dense_parameter_gradients<T>(gy, pointer<T>(result), pointer<T>(wanted.w2), pointer<T>(wanted.b2),
                                     s.rows, s.hidden, s.out);
  cuda::dense_parameter_gradients<T>(gh, pointer<T>(op.x), pointer<T>(wanted.w1), nullptr, s.rows, s.in,
                                     s.hidden);
}
#endif

MlpForm mlp_form() {
  const char* const given = std::getenv("PURSUIT_MLP");
  if (!given) return MlpForm::with_norms;
  const std::string form = given;
  if (form == "apart") return MlpForm::apart;
  if (form != "products") fail("mlp", "PURSUIT_MLP is '" + form + "'; known are apart and products");
  return MlpForm::products;
}

bool fits_mlp_kernel([[maybe_unused]] const Tensor& weight, [[maybe_unused]] const Mlp::Sizes& sizes) {
#ifdef PURSUIT_GPU
  if (weight.device().is_cuda() && weight.dtype() == DType::bf16 && mlp_form() != MlpForm::products)
    return cuda::fits_mlp_kernel(sizes.rows, sizes.in, sizes.hidden, sizes.out);
#endif
  return false;
}

// Whether backward on a GPU makes GELU's result again.
bool Mlp::makes_result() const { return in_one_kernel && activation == Activation::gelu && needs[3]; }

void Mlp::prepare(const Tensor& in, const Tensor& first, const Tensor& second) {
  x = in.contiguous();
  w1 = first.contiguous();
  w2 = second.contiguous();
  shape_of_x = x.shape();
  sizes = {x.numel() / w1.size(1), w1.size(1), w1.size(0), w2.size(0)};
  in_one_kernel = fits_mlp_kernel(w2, sizes);
  const bool passes = x.device().is_cuda() && !in_one_kernel;  // products and activation one after another
  if (needs.bits || passes) hidden = empty({sizes.rows, sizes.hidden}, x.dtype(), x.device());
  if (x.device().is_cuda())
    active = activation == Activation::relu ? hidden : passes ? empty_like(hidden) : Tensor();
}

void Mlp::keep_needed() {
  if (!needs[0]) w1 = {};
  if (!needs[1]) x = {};
  if (!needs[3]) active = {};
}

Tensor Mlp::forward(const Tensor& in, const Tensor& first, const Tensor& b1, const Tensor& second,
                    const Tensor& b2, const Tensor& residual) {
  prepare(in, first, second);
  has_residual = residual.defined();
  Shape shape = shape_of_x;
  shape.back() = w2.size(0);
  const Tensor plus = has_residual ? residual.contiguous() : Tensor();
  Tensor y = empty(shape, has_residual ? plus.dtype() : x.dtype(), x.device());
  const Tensor bias1 = b1.contiguous(), bias2 = b2.contiguous();
  dispatch(x, y, name, [&]<class Dev, class T, class Y>(Dev dev, Type<T> type, Type<Y> result) {
    launch<Mlp>(dev, type, result, *this, bias1, bias2, plus, y);
  });
  keep_needed();
  return y;
}

Grads Mlp::backward(const Tensor& gy, Needs) {
  const Tensor g = gy.to(hidden.dtype()).contiguous();
  const auto gradient_of = [&](int input, const Shape& shape) {
    return needs[input] ? empty(shape, hidden.dtype(), hidden.device()) : Tensor();
  };
  const Wanted wanted{gradient_of(0, shape_of_x), gradient_of(1, {sizes.hidden, sizes.in}),
                      gradient_of(2, {sizes.hidden}), gradient_of(3, {sizes.out, sizes.hidden}),
                      gradient_of(4, {sizes.out})};
  // Temporary memory: the gradient before the activation, and GELU's result where it was not saved.
  const bool cuda = hidden.device().is_cuda();
  const int64_t taken = (cuda ? makes_result() : activation == Activation::gelu) ? 2 : 1;
  if (shapes_only())
    empty({taken, cuda ? sizes.rows : rows_at_once(), sizes.hidden}, hidden.dtype(), hidden.device());
  dispatch(hidden, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
    launch_gradient<Mlp>(dev, *this, static_cast<const T*>(g.data<T>()), wanted);
  });
  return {wanted.x, wanted.w1, wanted.b1, wanted.w2, wanted.b2, needs[5] && has_residual ? gy : Tensor()};
}

Tensor Mlp::reference(const Tensor& in, const Tensor& first, const Tensor& b1, const Tensor& second,
                      const Tensor& b2, const Tensor& residual) const {
  const Tensor before = linear(in, first, b1);
  return linear(activation == Activation::relu ? relu(before) : gelu(before), second, b2, residual);
}
std::vector<Sample<Mlp>> Mlp::samples() {
  return {{{}, {{{3, 5}}, {{7, 5}}, {{7}}, {{4, 7}}, {{4}}, left_out()}},
          {{}, {{{2, 9, 12}}, {{33, 12}}, {{33}}, {{12, 33}}, {{12}}, {{2, 9, 12}}}},
          {{}, {{{2, 9, 12}}, {{33, 12}}, {{33}}, {{12, 33}}, {{12}}, wide({{2, 9, 12}})}},
          {{}, {{{600, 3}}, {{5, 3}}, {{5}}, {{2, 5}}, {{2}}, left_out()}},
          {{}, {{{70, 4}}, {{264, 4}}, {{264}}, {{2, 264}}, {{2}}, left_out()}},
          {{Activation::relu}, {{{2, 9, 12}}, {{33, 12}}, {{33}}, {{12, 33}}, {{12}}, {{2, 9, 12}}}},
          {{Activation::relu}, {{{70, 4}}, {{264, 4}}, {{264}}, {{2, 264}}, {{2}}, left_out()}},
          {{Activation::relu}, {{{600, 3}}, {{5, 3}}, {{5}}, {{2, 5}}, {{2}}, left_out()}},
          {{}, {{{390, 136}}, {{33, 136}}, {{33}}, {{192, 33}}, {{192}}, left_out()}},
          {{}, {{{400, 24}}, {{40, 24}}, {{40}}, {{24, 40}}, {{24}}, wide({{400, 24}})}},
          {{Activation::relu}, {{{385, 72}}, {{40, 72}}, {{40}}, {{128, 40}}, {{128}}, {{385, 128}}}},
          {{}, {{{130, 72}}, {{40, 72}}, {{40}}, {{72, 40}}, {{72}}, wide({{130, 72}})}},
          {{}, {{{3, 200}}, {{24, 200}}, {{24}}, {{8, 24}}, {{8}}, left_out()}},
          {{}, {{{0, 5}}, {{7, 5}}, {{7}}, {{4, 7}}, {{4}}, left_out()}}};
}
PURSUIT_OPERATOR(Mlp)

void check_mlp(const char* where, const Tensor& x, const Tensor& w1, const Tensor& b1, const Tensor& w2,
               const Tensor& b2) {
  if (w1.ndim() != 2 || w2.ndim() != 2 || x.ndim() < 1 || x.size(-1) != w1.size(1) || x.size(-1) < 1 ||
      w1.size(0) < 1 || w2.size(1) != w1.size(0) || b1.shape() != Shape{w1.size(0)} ||
      b2.shape() != Shape{w2.size(0)})
    fail(where,
         "got x " + x.str() + ", w1 " + w1.str() + ", b1 " + b1.str() + ", w2 " + w2.str() + ", b2 " +
             b2.str() +
             ", need [..., in], [hidden, in], [hidden], [out, hidden], [out], in and hidden at least 1");
  for (const Tensor* t : {&w1, &b1, &w2, &b2})
    if (t->dtype() != x.dtype() || t->device() != x.device())
      fail(where, "got x " + x.str() + " and a " + t->str() + ", need one dtype and device");
}

Tensor mlp(const Tensor& x, const Tensor& w1, const Tensor& b1, const Tensor& w2, const Tensor& b2,
           const Tensor& residual, Activation f) {
  check_mlp("mlp", x, w1, b1, w2, b2);
  Shape shape = x.shape();
  shape.back() = w2.size(0);
  require_residual("mlp", residual, shape, x);
  return apply(Mlp{f}, x, w1, b1, w2, b2, residual);
}

}  // namespace pursuit
