#include "engine/operator/for_each.h"
#include "engine/operator/operator.h"
#include "engine/ops.h"

namespace pursuit {

namespace {

template <class T> struct Lower {
  T* y;
  int64_t n;
  HD void operator()(int64_t i) const { y[i] = downcast<T>(i % n <= i / n ? 1 : 0); }
};

}  // namespace

Tensor lower_triangle(int64_t n, DType dtype, Device device) {
  const Tensor y = empty({n, n}, dtype, device);
  dispatch(y, "lower_triangle", [&]<class Dev, class T>(Dev dev, Type<T>) {
    for_each(dev, layout_of(y.shape(), y), Lower<T>{y.data<T>(), n});
  });
  return y;
}

}  // namespace pursuit
