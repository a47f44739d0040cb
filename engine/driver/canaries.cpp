#include <cmath>
#include <limits>

#include "engine/driver/driver.h"
#include "engine/ops.h"

// Deliberately wrong operators, with one mistake each. If the driver does not detect all of them, the driver
// is broken.
namespace pursuit::driver {

bool is_canary(const OperatorInfo& op) { return op.name.rfind("canary_", 0) == 0; }

namespace {

// The correct y = x^2; most canaries below change one thing.
struct Square {
  Tensor x = {};
  Tensor forward(const Tensor& in) {
    x = in;
    return in * in;
  }
  Grads backward(const Tensor& gy, Needs) { return {2.0 * x * gy}; }
};

template <class Op> std::vector<Sample<Op>> three_samples() {
  return {{{}, {{{7}}}}, {{}, {{{3, 5}}}}, {{}, {{{0}}}}};
}

struct CanaryTripleGradient : Square {
  static constexpr const char* name = "canary_triple_gradient";
  Grads backward(const Tensor& gy, Needs) { return {6.0 * x * gy}; }
  static std::vector<Sample<CanaryTripleGradient>> samples() { return three_samples<CanaryTripleGradient>(); }
};
PURSUIT_OPERATOR(CanaryTripleGradient)

// Half of the gradients are correctly 0; their relative error 0 / 0 must not hide the wrong others.
struct CanaryTripleRelu {
  static constexpr const char* name = "canary_triple_relu";
  Tensor y = {};
  Tensor forward(const Tensor& in) { return y = relu(in); }
  Grads backward(const Tensor& gy, Needs) { return {3.0 * clamp(y * 1e30, 0, 1) * gy}; }
  static std::vector<Sample<CanaryTripleRelu>> samples() { return three_samples<CanaryTripleRelu>(); }
};
PURSUIT_OPERATOR(CanaryTripleRelu)

// Wrong only where the input is exactly 0.
struct CanaryGradientAtZero {
  static constexpr const char* name = "canary_gradient_at_zero";
  Tensor x = {};
  Tensor forward(const Tensor& in) {
    x = in;
    return 2.0 * in;
  }
  Grads backward(const Tensor& gy, Needs) { return {affine(clamp(abs(x) * 1e30, 0, 1), -4, 6) * gy}; }
  static std::vector<Sample<CanaryGradientAtZero>> samples() { return {{{}, {{{5}}}}, {{}, {{{4}, 0, 0}}}}; }
};
PURSUIT_OPERATOR(CanaryGradientAtZero)

// Correct results, no reference, and a derivative that is 1 % off in every dtype.
struct CanaryDerivativeOff {
  static constexpr const char* name = "canary_derivative_off";
  Tensor a = {}, b = {};
  Tensor forward(const Tensor& left, const Tensor& right) {
    a = left;
    b = right;
    return left * right;
  }
  Grads backward(const Tensor& gy, Needs) { return {b * gy, 1.01 * a * gy}; }
  static std::vector<Sample<CanaryDerivativeOff>> samples() { return {{{}, {{{3, 50}}, {{3, 50}}}}}; }
};
PURSUIT_OPERATOR(CanaryDerivativeOff)

struct CanaryNegatedGradient : Square {
  static constexpr const char* name = "canary_negated_gradient";
  Grads backward(const Tensor& gy, Needs) { return {-2.0 * x * gy}; }
  static std::vector<Sample<CanaryNegatedGradient>> samples() {
    return three_samples<CanaryNegatedGradient>();
  }
};
PURSUIT_OPERATOR(CanaryNegatedGradient)

// Reads the input as if it were contiguous.
struct CanaryIgnoresStrides : Square {
  static constexpr const char* name = "canary_ignores_strides";
  Tensor forward(const Tensor& in) {
    x = in;
    Tensor y = empty_like(in);
    dispatch(in, name, [&]<class Dev, class T>(Dev, Type<T>) {
      // A view with stride 0 has fewer elements in memory than its shape; stay in bounds.
      int64_t last = 0;
      for (int d = 0; d < in.ndim(); ++d) last += (in.size(d) - 1) * in.stride(d);
      for (int64_t i = 0; i < y.numel(); ++i) {
        const auto v = upcast(in.data<T>()[std::min(i, last)]);
        y.data<T>()[i] = downcast<T>(v * v);
      }
    });
    return y;
  }
  static std::vector<Sample<CanaryIgnoresStrides>> samples() { return three_samples<CanaryIgnoresStrides>(); }
};
PURSUIT_OPERATOR(CanaryIgnoresStrides)

// Reads the incoming gradient as if it were contiguous.
struct CanaryIgnoresGradientStrides : Square {
  static constexpr const char* name = "canary_ignores_gradient_strides";
  Grads backward(const Tensor& gy, Needs) {
    return {2.0 * x * gy.view(gy.shape(), contiguous_strides(gy.shape()), 0)};
  }
  static std::vector<Sample<CanaryIgnoresGradientStrides>> samples() { return {{{}, {{{3, 5}}}}}; }
};
PURSUIT_OPERATOR(CanaryIgnoresGradientStrides)

// Writes one element past the end of its result.
struct CanaryWritesPastTheEnd : Square {
  static constexpr const char* name = "canary_writes_past_the_end";
  Tensor forward(const Tensor& in) {
    x = in;
    const Tensor y = in * in;
    dispatch(y, name, [&]<class Dev, class T>(Dev, Type<T>) { y.data<T>()[y.numel()] = T(); });
    return y;
  }
  static std::vector<Sample<CanaryWritesPastTheEnd>> samples() {
    return three_samples<CanaryWritesPastTheEnd>();
  }
};
PURSUIT_OPERATOR(CanaryWritesPastTheEnd)

// Writes one element before the beginning of its gradient.
struct CanaryWritesBeforeTheBeginning : Square {
  static constexpr const char* name = "canary_writes_before_the_beginning";
  Grads backward(const Tensor& gy, Needs) {
    const Tensor gx = 2.0 * x * gy;
    dispatch(gx, name, [&]<class Dev, class T>(Dev, Type<T>) { gx.data<T>()[-1] = T(); });
    return {gx};
  }
  static std::vector<Sample<CanaryWritesBeforeTheBeginning>> samples() {
    return three_samples<CanaryWritesBeforeTheBeginning>();
  }
};
PURSUIT_OPERATOR(CanaryWritesBeforeTheBeginning)

// One element of the result is NaN in every dtype.
struct CanaryNan : Square {
  static constexpr const char* name = "canary_nan";
  Tensor forward(const Tensor& in) {
    x = in;
    const Tensor y = in * in;
    if (y.numel() > 4) copy_values(y.reshape({-1}).slice(0, 4, 5), full({1}, NAN, y.dtype()));
    return y;
  }
  static std::vector<Sample<CanaryNan>> samples() { return three_samples<CanaryNan>(); }
};
PURSUIT_OPERATOR(CanaryNan)

// Wrong only in f32; f64 is correct.
struct CanaryNanInF32 : Square {
  static constexpr const char* name = "canary_nan_in_f32";
  Tensor forward(const Tensor& in) {
    x = in;
    const Tensor y = in * in;
    if (y.dtype() == DType::f32 && y.numel() > 4)
      y.data<float>()[4] = std::numeric_limits<float>::quiet_NaN();
    return y;
  }
  static std::vector<Sample<CanaryNanInF32>> samples() { return three_samples<CanaryNanInF32>(); }
};
PURSUIT_OPERATOR(CanaryNanInF32)

struct CanaryForgetsTheGradient : Square {
  static constexpr const char* name = "canary_forgets_the_gradient";
  Grads backward(const Tensor&, Needs) { return {empty_like(x)}; }
  static std::vector<Sample<CanaryForgetsTheGradient>> samples() {
    return three_samples<CanaryForgetsTheGradient>();
  }
};
PURSUIT_OPERATOR(CanaryForgetsTheGradient)

// Leaves out the last element, like a loop over whole vectors only.
struct CanaryForgetsTheTail : Square {
  static constexpr const char* name = "canary_forgets_the_tail";
  Grads backward(const Tensor& gy, Needs) {
    const Tensor gx = zeros(x.shape(), x.dtype(), x.device());
    const int64_t whole = x.numel() / 4 * 4;
    copy_values(gx.reshape({-1}).slice(0, 0, whole), (2.0 * x * gy).reshape({-1}).slice(0, 0, whole));
    return {gx};
  }
  static std::vector<Sample<CanaryForgetsTheTail>> samples() { return three_samples<CanaryForgetsTheTail>(); }
};
PURSUIT_OPERATOR(CanaryForgetsTheTail)

// Returns the f32 input's gradient in the bf16 of the other input.
struct CanaryNarrowsAGradient {
  static constexpr const char* name = "canary_narrows_a_gradient";
  DType narrow = DType::f32;
  Tensor forward(const Tensor& a, const Tensor& b) {
    narrow = a.dtype();
    return a + b;
  }
  Grads backward(const Tensor& gy, Needs) { return {gy.to(narrow), gy.to(narrow)}; }
  static std::vector<Sample<CanaryNarrowsAGradient>> samples() { return {{{}, {{{3, 5}}, wide({{3, 5}})}}}; }
};
PURSUIT_OPERATOR(CanaryNarrowsAGradient)

struct CanaryWritesToItsInput : Square {
  static constexpr const char* name = "canary_writes_to_its_input";
  Grads backward(const Tensor& gy, Needs) {
    const Tensor gx = 2.0 * x * gy;
    copy_values(x, gx);
    return {gx};
  }
  static std::vector<Sample<CanaryWritesToItsInput>> samples() {
    return three_samples<CanaryWritesToItsInput>();
  }
};
PURSUIT_OPERATOR(CanaryWritesToItsInput)

// f32 rounded to bf16: correct to three digits.
struct CanaryLosesDigits : Square {
  static constexpr const char* name = "canary_loses_digits";
  Tensor forward(const Tensor& in) {
    x = in;
    return in.dtype() == DType::f32 ? (in * in).to(DType::bf16).to(DType::f32) : in * in;
  }
  static std::vector<Sample<CanaryLosesDigits>> samples() { return three_samples<CanaryLosesDigits>(); }
};
PURSUIT_OPERATOR(CanaryLosesDigits)

// Wrong in f64 too, so only the reference can detect it.
struct CanaryReference : Square {
  static constexpr const char* name = "canary_reference";
  Tensor forward(const Tensor& in) {
    x = in;
    return in * in + 1e-3;
  }
  Tensor reference(const Tensor& in) const { return square(in); }
  static std::vector<Sample<CanaryReference>> samples() { return three_samples<CanaryReference>(); }
};
PURSUIT_OPERATOR(CanaryReference)

}  // namespace

}  // namespace pursuit::driver
