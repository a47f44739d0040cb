// A program outside the source tree: uses the installed library, and defines an operator of its own.
#include <cmath>
#include <cstdio>

#include "engine/base/random.h"
#include "engine/operator/elementwise.h"
#include "engine/ops.h"
#include "engine/solve/gradcheck.h"

using namespace pursuit;

struct Softsign : Unary<Softsign> {
  static constexpr const char* name = "softsign";
  template <class A> HD static A fwd(A x) { return x / (1 + std::abs(x)); }
  template <class A> HD static A bwd(A x, A) { return 1 / ((1 + std::abs(x)) * (1 + std::abs(x))); }
  static std::vector<Sample<Softsign>> samples() { return unary_samples<Softsign>(1, 3); }
};
PURSUIT_OPERATOR(Softsign)

int main() {
  bool found = false;
  for (const OperatorInfo& op : inventory()) found = found || op.name == "layer_norm";
  const Tensor x = normal({3, 5}, 0, 1, 1, 1, DType::f64), w = normal({4, 5}, 0, 1, 1, 2, DType::f64);
  const auto report = check_gradient(
      [](const std::vector<Tensor>& in) {
        return sum(square(apply(Softsign{}, matmul(in[0], in[1].transpose(0, 1)))));
      },
      {x, w});
  std::printf("%s; the inventory %s layer_norm\n", report.ok ? "gradient ok" : "gradient wrong",
              found ? "has" : "lacks");
  return report.ok && found ? 0 : 1;
}
