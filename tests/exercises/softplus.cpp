#include "engine/operator/elementwise.h"

// log(1 + e^x). Its derivative is sigmoid(x), so only x is saved.
namespace exercises {

using pursuit::Sample;
using pursuit::Saves;

struct Softplus : pursuit::Unary<Softplus> {
  static constexpr const char* name = "softplus";
  static constexpr Saves saves = Saves::x;
  // e^-|x| cannot overflow.
  template <class A> HD static A fwd(A x) { return (x > 0 ? x : A(0)) + std::log1p(std::exp(-std::abs(x))); }
  template <class A> HD static A bwd(A x, A) { return 1 / (1 + std::exp(-x)); }
  static std::vector<Sample<Softplus>> samples() {
    auto samples = pursuit::unary_samples<Softplus>(-6, 6);
    samples.push_back({{}, {{{9}, 100, 200}}});
    return samples;
  }
};
PURSUIT_OPERATOR(Softplus)

}  // namespace exercises
