#include "engine/operator/elementwise.h"

namespace pursuit {

struct LerpWeight {
  double weight = 0.5;
};

struct Lerp : Binary<Lerp, LerpWeight> {
  static constexpr const char* name = "lerp";
  static constexpr Reads da_reads = Reads::none, db_reads = Reads::none;
  // Starts from the nearer end, so that weights 0 and 1 give a and b exactly.
  template <class A> HD static A fwd(A a, A b, const LerpWeight& w) {
    const A t = A(w.weight);
    return t < A(0.5) ? a + t * (b - a) : b - (1 - t) * (b - a);
  }
  template <class A> HD static A da(A, A, const LerpWeight& w) { return A(1 - w.weight); }
  template <class A> HD static A db(A, A, const LerpWeight& w) { return A(w.weight); }
  static std::vector<Sample<Lerp>> samples() {
    std::vector<Sample<Lerp>> samples = binary_samples<Lerp>(-2, 2);
    const double weights[] = {0.25, 0.75, 0, 1, -0.5, 1.5};
    for (size_t i = 0; i < samples.size(); ++i) samples[i].op.params.weight = weights[i % std::size(weights)];
    return samples;
  }
};
PURSUIT_OPERATOR(Lerp)

Tensor lerp(const Tensor& a, const Tensor& b, double weight) { return apply(Lerp{{{weight}}}, a, b); }

}  // namespace pursuit
