#include "engine/core/shapes_only.h"
#include "engine/cpu/kept_factors.h"
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

Tensor cast(const Tensor& x, DType dtype) {
  if (!x.defined() || x.needs_grad() || x.device().is_cuda() || !x.is_contiguous() || x.numel() == 0 ||
      shapes_only())
    return apply(Cast{dtype}, x);
  const auto as_tensor = [&](const Storage& numbers) {
    return Tensor(numbers, x.shape(), contiguous_strides(x.shape()), 0, dtype, cpu);
  };
  const Storage kept = kept_copy(x.raw(), x.numel(), dtype,
                                 [&](const Storage& numbers) { copy_values(as_tensor(numbers), x); });
  return kept ? as_tensor(kept) : apply(Cast{dtype}, x);
}

}  // namespace pursuit
