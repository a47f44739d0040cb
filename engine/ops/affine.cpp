#include "engine/operator/elementwise.h"

namespace pursuit {

struct AffineParams {
  double scale, shift;
};

struct Affine : Unary<Affine, AffineParams> {
  static constexpr const char* name = "affine";
  static constexpr Saves saves = Saves::none;
  template <class A> HD static A fwd(A x, const AffineParams& p) { return x * A(p.scale) + A(p.shift); }
  template <class A> HD static A bwd(A, A, const AffineParams& p) { return A(p.scale); }
  static std::vector<Sample<Affine>> samples() {
    return {{{AffineParams{2.5, -1}}, {{{7}}}},
            {{AffineParams{-1, 0}}, {{{3, 43}}}},
            {{AffineParams{1, 3}}, {{{0}}}}};
  }
};
PURSUIT_OPERATOR(Affine)

Tensor affine(const Tensor& x, double scale, double shift) {
  return apply(Affine{{AffineParams{scale, shift}}}, x);
}

}  // namespace pursuit
