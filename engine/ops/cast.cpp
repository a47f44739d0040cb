#include "engine/operator/operator.h"
#include "engine/ops.h"

namespace pursuit {

struct Cast {
  static constexpr const char* name = "cast";
  DType to = DType::f32;
  DType from = DType::f32;

  Tensor forward(const Tensor& x) {
    from = x.dtype();
    Tensor y = empty(x.shape(), to, x.device());
    copy_values(y, x);
    return y;
  }
  Grads backward(const Tensor& gy, Needs) { return {gy.to(from)}; }
  static std::vector<Sample<Cast>> samples() {
    return {{{DType::f32}, {{{3, 5}}}, 8}, {{DType::f32}, {{{0}}}}};
  }
};
PURSUIT_OPERATOR(Cast)

Tensor cast(const Tensor& x, DType dtype) { return apply(Cast{dtype}, x); }

}  // namespace pursuit
