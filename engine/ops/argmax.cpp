#include "engine/operator.h"
#include "engine/ops.h"
#include "engine/parallel.h"

namespace pursuit {

// A NaN counts as the greatest, so that a broken row does not look like a class. GPU tensors are looked at on
// the host: the result is small and read there.
Tensor argmax(const Tensor& x) {
  if (x.ndim() == 0 || x.shape().back() == 0)
    fail("argmax", "got " + x.str() + ", need a last dimension with entries");
  const Tensor dense = x.detach().to(cpu).contiguous();
  Shape shape = x.shape();
  const int64_t cols = shape.back();
  shape.erase(shape.size() - 1);
  Tensor y = empty(shape, DType::i64);
  int64_t* to = y.data<int64_t>();
  dispatch(dense, "argmax", [&]<class Dev, class T>(Dev, Type<T>) {
    const T* from = static_cast<const T*>(dense.raw());
    parallel_for(y.numel(), std::max<int64_t>(1, 16384 / cols), [&](int64_t b, int64_t e) {
      for (int64_t i = b; i < e; ++i) {
        const T* row = from + i * cols;
        int64_t best = 0;
        for (int64_t j = 0; j < cols; ++j) {
          const auto v = up(row[j]), top = up(row[best]);
          if (v > top || (v != v && top == top)) best = j;
        }
        to[i] = best;
      }
    });
  });
  return y.to(x.device());
}

}  // namespace pursuit
