#include "engine/operator/elementwise.h"

namespace pursuit {

struct Div : Binary<Div> {
  static constexpr const char* name = "div";
  static constexpr Reads da_reads = Reads::b;
  template <class A> HD static A fwd(A a, A b) { return a / b; }
  template <class A> HD static A da([[maybe_unused]] A a, [[maybe_unused]] A b) { return 1 / b; }
  template <class A> HD static A db([[maybe_unused]] A a, [[maybe_unused]] A b) { return -(a / b) / b; }
  static std::vector<Sample<Div>> samples() { return binary_samples<Div>(0.5, 2); }
};
PURSUIT_OPERATOR(Div)

struct Divisor {
  double value;
};

// By a number. A product with its reciprocal would be rounded twice.
struct DivNumber : Unary<DivNumber, Divisor> {
  static constexpr const char* name = "div_number";
  static constexpr Saves saves = Saves::none;
  template <class A> HD static A fwd(A x, const Divisor& by) { return x / A(by.value); }
  Grads backward(const Tensor& gy, Needs) { return {div(gy, params.value)}; }
  static std::vector<Sample<DivNumber>> samples() {
    return {{{Divisor{3}}, {{{7}}}}, {{Divisor{-41}}, {{{3, 43}}}}, {{Divisor{0.3}}, {{{0}}}}};
  }
};
PURSUIT_OPERATOR(DivNumber)

Tensor div(const Tensor& a, const Tensor& b) { return apply(Div{}, a, b); }
Tensor div(const Tensor& x, double c) { return apply(DivNumber{{Divisor{c}}}, x); }

}  // namespace pursuit
