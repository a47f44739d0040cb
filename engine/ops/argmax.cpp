#include "cuda/argmax.cuh"

#include "engine/cpu/parallel.h"
#include "engine/operator/operator.h"
#include "engine/ops.h"

namespace pursuit {

// NaN counts as the largest, so that a broken row does not look like a class.
struct Argmax {
  static constexpr const char* name = "argmax";

  template <class T> static void kernel(Cpu, const T* x, int64_t* y, int64_t n, int64_t cols) {
    parallel_for(n, std::max<int64_t>(1, 16384 / cols), [&](int64_t b, int64_t e) {
      for (int64_t i = b; i < e; ++i) {
        const T* row = x + i * cols;
        int64_t best = 0;
        for (int64_t j = 0; j < cols; ++j) {
          const auto v = upcast(row[j]), top = upcast(row[best]);
          if (v > top || (v != v && top == top)) best = j;
        }
        y[i] = best;
      }
    });
  }
#ifdef PURSUIT_GPU
  template <class T> static void kernel(Cuda, const T* x, int64_t* y, int64_t n, int64_t cols) {
    if (n == 0) return;
    cuda::with_team<T>(cols, {x}, [&]<class Team>(Type<Team>) {
      cuda::launch<cuda::argmax_kernel<Team, T>>(Team::grid(n), x, y, n, cols);
    });
  }
#endif

  Tensor forward(const Tensor& in) {
    if (in.ndim() == 0 || in.shape().back() == 0)
      fail(name, "got " + in.str() + ", need a last dimension with entries");
    const Tensor x = in.contiguous();
    Shape shape = in.shape();
    const int64_t cols = shape.back();
    shape.erase(shape.size() - 1);
    const Tensor y = empty(shape, DType::i64, x.device());
    dispatch(x, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      launch<Argmax>(dev, x.data<T>(), y.data<int64_t>(), y.numel(), cols);
    });
    return y;
  }
  Grads backward(const Tensor&, Needs) { return {Tensor()}; }
  static std::vector<Sample<Argmax>> samples() {
    return {
        {{}, {{{7}}}}, {{}, {{{3, 1}}}}, {{}, {{{4, 129}, 0, 0}}}, {{}, {{{2, 3, 2100}}}}, {{}, {{{0, 3}}}}};
  }
};
PURSUIT_OPERATOR(Argmax)

Tensor argmax(const Tensor& x) { return apply(Argmax{}, x); }

}  // namespace pursuit
