#include "engine/operator/elementwise.h"

namespace pursuit {

struct ClampRange {
  double lo, hi;
};

struct Clamp : Unary<Clamp, ClampRange> {
  static constexpr const char* name = "clamp";
  static constexpr bool masks = true;
  static constexpr Saves saves = Saves::x;
  template <class A> HD static A fwd(A x, const ClampRange& r) {
    return x < A(r.lo) ? A(r.lo) : x > A(r.hi) ? A(r.hi) : x;
  }
  template <class A> HD static A bwd(A x, A, const ClampRange& r) {
    return x < A(r.lo) || x > A(r.hi) ? A(0) : A(1);
  }
  static std::vector<Sample<Clamp>> samples() {
    return {{{ClampRange{-0.5, 0.75}}, {{{7}}}},
            {{ClampRange{0, 1}}, {{{3, 43}}}},
            {{ClampRange{-2, 2}}, {{{0}}}}};
  }
};
PURSUIT_OPERATOR(Clamp)

Tensor clamp(const Tensor& x, double lo, double hi) {
  if (!(lo <= hi)) fail("clamp", "the range is empty: lo is above hi");
  return apply(Clamp{{ClampRange{lo, hi}}}, x);
}

}  // namespace pursuit
