#include "cuda/log_softmax.cuh"

#include "engine/cpu/parallel.h"
#include "engine/cpu/wide_rows.h"
#include "engine/operator/operator.h"
#include "engine/ops.h"

namespace pursuit {

// A row that is all -inf has logarithms -inf and no gradient, as softmax makes it zero.
struct LogSoftmax {
  static constexpr const char* name = "log_softmax";
  Tensor y = {};

  template <class T> static void kernel(Cpu, const T* x, T* y, int64_t n, int64_t cols) {
    using R = compute_t<T>;
    parallel_for(n, std::max<int64_t>(1, 4096 / (cols + 1)), [&](int64_t b, int64_t e) {
      std::vector<R> wide, scratch(static_cast<size_t>(cols));
      for (int64_t i = b; i < e; ++i) {
        std::copy_n(x + i * cols, cols, y + i * cols);
        change_row(y + i * cols, cols, wide, [&](R* row) {
          R stats[2];  // maximum, 1 / sum of exponentials
          std::copy_n(row, cols, scratch.data());
          rows<R>().softmax_rows(scratch.data(), 1, cols, cols, stats, -1);
          const R shift = stats[1] == 0 ? R(0) : std::log(stats[1]);
          for (int64_t j = 0; j < cols; ++j) row[j] = (row[j] - stats[0]) + shift;
        });
      }
    });
  }
  template <class T> static void gradient(Cpu, const T* y, const T* gy, T* gx, int64_t n, int64_t cols) {
    using R = compute_t<T>;
    parallel_for(n, std::max<int64_t>(1, 4096 / (cols + 1)), [&](int64_t b, int64_t e) {
      std::vector<R> wide, p(static_cast<size_t>(cols));
      for (int64_t i = b; i < e; ++i) {
        for (int64_t j = 0; j < cols; ++j) p[size_t(j)] = upcast(y[i * cols + j]);
        R stats[2];
        rows<R>().softmax_rows(p.data(), 1, cols, cols, stats, -1);
        std::copy_n(gy + i * cols, cols, gx + i * cols);
        change_row(gx + i * cols, cols, wide, [&](R* row) {
          double total = 0;
          for (int64_t j = 0; j < cols; ++j) total += double(row[j]);
          const R keep = stats[1] == 0 ? R(0) : R(1);
          for (int64_t j = 0; j < cols; ++j) row[j] = keep * row[j] - p[size_t(j)] * R(total);
        });
      }
    });
  }
#ifdef PURSUIT_GPU
  template <class T> static void kernel(Cuda, const T* x, T* y, int64_t n, int64_t cols) {
    cuda::with_team<T>(cols, {x, y}, [&]<class Team>(Type<Team>) {
      cuda::launch<cuda::log_softmax_kernel<Team, T>>(Team::grid(n), x, y, n, cols);
    });
  }
  template <class T> static void gradient(Cuda, const T* y, const T* gy, T* gx, int64_t n, int64_t cols) {
    cuda::with_team<T>(cols, {y, gy, gx}, [&]<class Team>(Type<Team>) {
      cuda::launch<cuda::log_softmax_gradient_kernel<Team, T>>(Team::grid(n), y, gy, gx, n, cols);
    });
  }
#endif

  Tensor forward(const Tensor& in) {
    const Tensor x = in.contiguous();
    y = empty_like(x);
    if (y.numel() == 0) return y;
    dispatch(y, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      launch<LogSoftmax>(dev, x.data<T>(), y.data<T>(), y.numel() / y.shape().back(), y.shape().back());
    });
    return y;
  }
  Grads backward(const Tensor& gy, Needs) {
    const Tensor g = gy.contiguous();
    Tensor gx = empty_like(y);
    if (gx.numel() == 0) return {gx};
    dispatch(gx, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      launch_gradient<LogSoftmax>(dev, y.data<T>(), g.data<T>(), gx.data<T>(), gx.numel() / gx.shape().back(),
                                  gx.shape().back());
    });
    return {gx};
  }
  Tensor reference(const Tensor& x) const { return x - log(sum(exp(x), {-1}, true)); }
  static std::vector<Sample<LogSoftmax>> samples() {
    return {{{}, {{{3, 5}, -4, 4}}},
            {{}, {{{2, 3, 129}, -8, 8}}},
            {{}, {{{4, 1}}}},
            {{}, {{{0, 7}}}},
            {{}, {{{17}}}},
            {{}, {{{2, 511}, -8, 8}}},
            {{}, {{{3, 513}, -8, 8}}},
            {{}, {{{2, 1024}, -8, 8}}},
            {{}, {{{2, 4104}, -8, 8}}}};
  }
};
PURSUIT_OPERATOR(LogSoftmax)

Tensor log_softmax(const Tensor& x) {
  if (x.ndim() == 0) fail("log_softmax", "got " + x.str() + ", need at least one dimension");
  return apply(LogSoftmax{}, x);
}

}  // namespace pursuit
