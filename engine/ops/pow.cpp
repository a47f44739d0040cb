#include "engine/operator/elementwise.h"

namespace pursuit {

struct Exponent {
  double p = 2;
};

struct Pow : Unary<Pow, Exponent> {
  static constexpr const char* name = "pow";
  static constexpr Saves saves = Saves::x;
  template <class A> HD static A fwd(A x, const Exponent& e) { return std::pow(x, A(e.p)); }
  template <class A> HD static A bwd(A x, A, const Exponent& e) {
    return e.p == 0 ? A(0) : A(e.p) * std::pow(x, A(e.p - 1));
  }
  static std::vector<Sample<Pow>> samples() {
    return {{{Exponent{3}}, {{{7}}}},
            {{Exponent{0.5}}, {{{3, 43}, 0.25, 4}}},
            {{Exponent{-1.5}}, {{{2, 1, 9}, 0.5, 2}}},
            {{Exponent{0}}, {{{5}}}},
            {{Exponent{2}}, {{{0}}}}};
  }
};
PURSUIT_OPERATOR(Pow)

Tensor pow(const Tensor& x, double exponent) { return apply(Pow{{Exponent{exponent}}}, x); }

// The exponent has a gradient too: pow(a, b) log a, 0 where a is 0.
struct PowTensor : Binary<PowTensor> {
  static constexpr const char* name = "pow_tensor";
  template <class A> HD static A fwd(A a, A b) { return std::pow(a, b); }
  template <class A> HD static A da(A a, A b) { return b == 0 ? A(0) : b * std::pow(a, b - 1); }
  template <class A> HD static A db(A a, A b) {
    return a == 0 && b >= 0 ? A(0) : std::pow(a, b) * std::log(a);
  }
  static std::vector<Sample<PowTensor>> samples() { return binary_samples<PowTensor>(0.5, 2); }
};
PURSUIT_OPERATOR(PowTensor)

Tensor pow(const Tensor& x, const Tensor& exponent) { return apply(PowTensor{}, x, exponent); }

}  // namespace pursuit
