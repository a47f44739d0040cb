#include "cuda/conv2d.cuh"

#include "engine/cpu/convolution.h"
#include "engine/operator/operator.h"
#include "engine/ops.h"
#include "engine/ops/window_checks.h"

namespace pursuit {

struct Conv2d {
  static constexpr const char* name = "conv2d";
  ConvOptions options = {};
  Tensor kept_x = {}, kept_weight = {};  // each is saved for the other's gradient
  ConvShape shape = {};
  bool has_bias = false;
  Needs needs = {};

  ConvShape shape_of(const Tensor& x, const Tensor& w) const {
    const ConvOptions& o = options;
    ConvShape s{x.size(0),
                x.size(1),
                w.size(0),
                o.groups,
                {x.size(2), w.size(2), o.stride.h, o.padding.h, o.dilation.h},
                {x.size(3), w.size(3), o.stride.w, o.padding.w, o.dilation.w},
                0,
                0};
    s.down = s.h.count();
    s.across = s.w.count();
    return s;
  }
  // On the CPU bf16 is computed in f32 and rounded once.
  static DType computed_in(const Tensor& x) {
    return x.device() == cpu ? compute_type(x.dtype()) : x.dtype();
  }

  template <class T>
  static void kernel(Cpu, const ConvShape& s, const T* x, const T* w, const T* bias, T* y) {
    if constexpr (!std::is_same_v<T, bf16>) convolve(s, x, w, bias, y);
  }
  template <class T>
  static void gradient(Cpu, const ConvShape& s, const T* gy, const T* x, const T* w, T* gx, T* gw) {
    if constexpr (!std::is_same_v<T, bf16>) {
      if (gx) convolve_input_gradient(s, gy, w, gx);
      if (gw) convolve_weight_gradient(s, x, gy, gw);
    }
  }
#ifdef PURSUIT_GPU
  template <class T>
  static void kernel(Cuda, const ConvShape& s, const T* x, const T* w, const T* bias, T* y) {
    cuda::convolve(s, x, w, bias, y);
  }
  template <class T>
  static void gradient(Cuda, const ConvShape& s, const T* gy, const T* x, const T* w, T* gx, T* gw) {
    if (gx) cuda::convolve_input_gradient(s, gy, w, gx);
    if (gw) cuda::convolve_weight_gradient(s, x, gy, gw);
  }
#endif

  Tensor forward(const Tensor& in, const Tensor& w, const Tensor& b) {
    const DType type = computed_in(in);
    const Tensor x = in.contiguous(), weight = w.contiguous();
    if (needs[0]) kept_weight = weight;
    if (needs[1]) kept_x = x;
    shape = shape_of(x, weight);
    has_bias = b.defined();
    const Tensor own_x = x.to(type), own_weight = weight.to(type),
                 bias = has_bias ? b.to(type).contiguous() : Tensor();
    const Tensor y = empty({shape.batch, shape.out, shape.down, shape.across}, type, x.device());
    dispatch(y, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      launch<Conv2d>(dev, shape, static_cast<const T*>(own_x.data<T>()),
                     static_cast<const T*>(own_weight.data<T>()),
                     static_cast<const T*>(has_bias ? bias.data<T>() : nullptr), y.data<T>());
    });
    return y.to(in.dtype());
  }
  Grads backward(const Tensor& gy, Needs) {
    const DType type = computed_in(gy);
    const ConvShape& s = shape;
    const Tensor g = gy.to(type).contiguous();
    const auto in_type = [&](const Tensor& t) { return t.defined() ? t.to(type) : Tensor(); };
    const Tensor x = in_type(kept_x), weight = in_type(kept_weight);
    const auto wanted = [&](bool needed, const Shape& of) {
      return needed ? empty(of, type, gy.device()) : Tensor();
    };
    const Tensor gx = wanted(needs[0], {s.batch, s.channels, s.h.size, s.w.size}),
                 gw = wanted(needs[1], {s.out, s.group_channels(), s.h.kernel, s.w.kernel});
    dispatch(g, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      const auto pointer = [](const Tensor& t) { return t.defined() ? t.data<T>() : nullptr; };
      launch_gradient<Conv2d>(dev, s, static_cast<const T*>(g.data<T>()), static_cast<const T*>(pointer(x)),
                              static_cast<const T*>(pointer(weight)), pointer(gx), pointer(gw));
    });
    const auto given = [&](const Tensor& t) { return t.defined() ? t.to(gy.dtype()) : Tensor(); };
    return {given(gx), given(gw), needs[2] && has_bias ? sum(gy, {0, 2, 3}) : Tensor()};
  }

  // Taps are slices of the zero-padded image, each multiplied by its weights.
  Tensor reference(const Tensor& x, const Tensor& w, const Tensor& bias) const {
    const ConvShape s = shape_of(x, w);
    const auto zeros_beside = [](const Tensor& t, int dim, int64_t n) {
      Shape shape = t.shape();
      shape[dim] = n;
      return zeros(shape, t.dtype(), t.device());
    };
    Tensor padded = x;
    for (const auto& [dim, n] : {std::pair{2, s.h.padding}, std::pair{3, s.w.padding}})
      if (n > 0) padded = concat({zeros_beside(padded, dim, n), padded, zeros_beside(padded, dim, n)}, dim);
    const auto strided = [](const Tensor& t, int dim, int64_t begin, int64_t count, int64_t stride) {
      std::vector<Tensor> parts;
      for (int64_t i = 0; i < count; ++i)
        parts.push_back(slice(t, dim, begin + i * stride, begin + i * stride + 1));
      return concat(parts, dim);
    };
    const int64_t b = s.batch, c = s.group_channels(), m = s.group_out();
    Tensor y;
    for (int64_t i = 0; i < s.h.kernel; ++i)
      for (int64_t j = 0; j < s.w.kernel; ++j) {
        const Tensor rows = strided(padded, 2, i * s.h.dilation, s.down, s.h.stride),
                     tap = strided(rows, 3, j * s.w.dilation, s.across, s.w.stride);
        const Tensor weights = w.select(3, j).select(2, i).reshape({s.groups, m, c});
        const Tensor term = matmul(weights, tap.reshape({b, s.groups, c, s.positions()}));
        y = y.defined() ? y + term : term;
      }
    y = y.reshape({b, s.out, s.down, s.across});
    return bias.defined() ? y + bias.reshape({s.out, 1, 1}) : y;
  }
  static std::vector<Sample<Conv2d>> samples() {
    // Options are stride, padding, dilation, groups.
    const auto with = [](const ConvOptions& o, const Shape& x, const Shape& weight) {
      return Sample<Conv2d>{{o}, {{x}, {weight}, {{weight[0]}}}};
    };
    const auto without_bias = [](const ConvOptions& o, const Shape& x, const Shape& weight) {
      return Sample<Conv2d>{{o}, {{x}, {weight}, left_out()}};
    };
    return {with(ConvOptions{1, 1}, {2, 3, 7, 5}, {4, 3, 3, 3}),
            with(ConvOptions{}, {2, 5, 3, 7}, {6, 5, 1, 1}),
            without_bias(ConvOptions{2}, {1, 3, 8, 5}, {5, 3, 1, 1}),
            with(ConvOptions{2, 3}, {2, 3, 17, 13}, {5, 3, 7, 7}),
            with(ConvOptions{{2, 1}, {0, 2}, {1, 2}}, {2, 2, 9, 6}, {3, 2, 2, 3}),
            without_bias(ConvOptions{{3, 2}, {2, 1}, {2, 3}}, {1, 2, 11, 16}, {3, 2, 3, 3}),
            with(ConvOptions{1, 1, 1, 3}, {2, 6, 5, 5}, {9, 2, 3, 3}),
            with(ConvOptions{2, 1, 1, 2}, {1, 2, 6, 7}, {6, 1, 3, 3}),
            with(ConvOptions{1, 3, 1, 5}, {3, 5, 9, 19}, {5, 1, 7, 7}),
            with(ConvOptions{2, 2, 2, 4}, {2, 4, 12, 9}, {4, 1, 3, 3}),
            with(ConvOptions{1, 2}, {1, 2, 1, 2}, {3, 2, 5, 4}),
            with(ConvOptions{1, 3}, {2, 2, 4, 4}, {2, 2, 1, 1}),
            with(ConvOptions{}, {2, 3, 4, 4}, {5, 3, 4, 4}),
            with(ConvOptions{4}, {2, 3, 8, 8}, {5, 3, 4, 4}),
            with(ConvOptions{1, 1}, {1, 34, 20, 18}, {19, 34, 3, 3}),
            with(ConvOptions{1, 1}, {0, 3, 4, 4}, {5, 3, 3, 3}),
            with(ConvOptions{1, 1, 1, 3}, {0, 3, 4, 4}, {3, 1, 3, 3})};
  }
};
PURSUIT_OPERATOR(Conv2d)

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options) {
  require_defined("conv2d", {&x, &weight});
  const int64_t groups = options.groups;
  if (x.ndim() != 4 || weight.ndim() != 4 || x.dtype() != weight.dtype() || x.device() != weight.device())
    fail("conv2d",
         "got x " + x.str() + " and weight " + weight.str() +
             ", need [B, C, H, W] and [out, C / groups, kernel height, kernel width] of one dtype and "
             "device");
  if (groups < 1 || x.size(1) % groups || weight.size(0) % groups || x.size(1) / groups != weight.size(1))
    fail("conv2d",
         "got x " + x.str() + ", weight " + weight.str() + " and " + std::to_string(groups) +
             " groups, need channels and outputs that the groups divide, and weights [out, C / groups, ...]");
  if (bias.defined() &&
      (bias.shape() != Shape{weight.size(0)} || bias.dtype() != x.dtype() || bias.device() != x.device()))
    fail("conv2d", "bias is " + bias.str() + ", need " + name_of(x.dtype()) + Shape{weight.size(0)}.str() +
                       " on " + x.device().name());
  require_windows("conv2d", x, {weight.size(2), weight.size(3)}, options.stride, options.padding,
                  options.dilation);
  return apply(Conv2d{options}, x, weight, bias);
}

}  // namespace pursuit
