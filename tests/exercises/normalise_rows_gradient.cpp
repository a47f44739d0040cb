#include "cuda/row.cuh"
#include "engine/cpu/parallel.h"
#include "engine/operator/operator.h"
#include "engine/ops.h"

// apps/examples/normalise_rows with a kernel for the gradient too: gx = (gy - y (y . gy)) / |x|, one pass
// over y and gy. y is saved as it was rounded, so that under bf16 both passes see the same numbers.
namespace exercises {

using namespace pursuit;

#ifdef PURSUIT_GPU
template <class Team, class T>
__global__ void rows_kernel(const T* x, T* y, float* lengths, int64_t n, int64_t cols) {
  const Team team(cols);
  for (int64_t i = team.first(); i < n; i += team.step()) {
    const auto row = team.read(x + i * cols);
    float squares = 0;
    team.each([&](int64_t, float v) { squares += v * v; }, row);
    const float length = sqrtf(team.sum(squares));
    team.write(
        y + i * cols, [&](int64_t, float v) { return v / length; }, row);
    if (team.leads()) lengths[i] = length;
  }
}
template <class Team, class T> __global__ void rows_gradient_kernel(const T* y, const T* gy,
                                                                    const float* lengths, T* gx, int64_t n,
                                                                    int64_t cols) {
  const Team team(cols);
  for (int64_t i = team.first(); i < n; i += team.step()) {
    const auto unit = team.read(y + i * cols), g = team.read(gy + i * cols);
    float along = 0;
    team.each([&](int64_t, float u, float v) { along += u * v; }, unit, g);
    along = team.sum(along);
    team.write(
        gx + i * cols, [&](int64_t, float u, float v) { return (v - u * along) / lengths[i]; }, unit, g);
  }
}
#endif

struct NormaliseRows {
  static constexpr const char* name = "normalise_rows_gradient";
  Tensor y = {}, lengths = {};

  template <class T>
  static void kernel(Cpu, const T* x, T* y, compute_t<T>* lengths, int64_t n, int64_t cols) {
    parallel_for(n, 64, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        compute_t<T> squares = 0;
        for (int64_t j = 0; j < cols; ++j) squares += upcast(x[i * cols + j]) * upcast(x[i * cols + j]);
        lengths[i] = std::sqrt(squares);
        for (int64_t j = 0; j < cols; ++j)
          y[i * cols + j] = downcast<T>(upcast(x[i * cols + j]) / lengths[i]);
      }
    });
  }
  template <class T> static void gradient(Cpu, const T* y, const T* gy, const compute_t<T>* lengths, T* gx,
                                          int64_t n, int64_t cols) {
    parallel_for(n, 64, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T *unit = y + i * cols, *g = gy + i * cols;
        compute_t<T> along = 0;
        for (int64_t j = 0; j < cols; ++j) along += upcast(unit[j]) * upcast(g[j]);
        for (int64_t j = 0; j < cols; ++j)
          gx[i * cols + j] = downcast<T>((upcast(g[j]) - upcast(unit[j]) * along) / lengths[i]);
      }
    });
  }
#ifdef PURSUIT_GPU
  template <class T> static void kernel(Cuda, const T* x, T* y, float* lengths, int64_t n, int64_t cols) {
    cuda::with_team<T>(cols, {x, y}, [&]<class Team>(Type<Team>) {
      cuda::launch<rows_kernel<Team, T>>(Team::grid(n), x, y, lengths, n, cols);
    });
  }
  template <class T>
  static void gradient(Cuda, const T* y, const T* gy, const float* lengths, T* gx, int64_t n, int64_t cols) {
    cuda::with_team<T>(cols, {y, gy, gx}, [&]<class Team>(Type<Team>) {
      cuda::launch<rows_gradient_kernel<Team, T>>(Team::grid(n), y, gy, lengths, gx, n, cols);
    });
  }
#endif

  Tensor forward(const Tensor& in) {
    const Tensor x = in.contiguous();
    Shape one_a_row = x.shape();
    one_a_row[x.ndim() - 1] = 1;
    y = empty_like(x);
    lengths = empty(one_a_row, compute_type(x.dtype()), x.device());
    if (x.numel() == 0) return y;
    dispatch(x, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      launch<NormaliseRows>(dev, x.data<T>(), y.data<T>(), lengths.data<compute_t<T>>(), lengths.numel(),
                            x.size(-1));
    });
    return y;
  }
  Grads backward(const Tensor& gy, Needs) {
    const Tensor g = gy.contiguous(), gx = empty_like(y);
    if (gx.numel() == 0) return {gx};
    dispatch(g, name, [&]<class Dev, class T>(Dev dev, Type<T>) {
      launch_gradient<NormaliseRows>(dev, y.data<T>(), g.data<T>(), lengths.data<compute_t<T>>(),
                                     gx.data<T>(), lengths.numel(), y.size(-1));
    });
    return {gx};
  }
  Tensor reference(const Tensor& x) const { return x / sqrt(sum(square(x), {-1}, true)); }
  static std::vector<Sample<NormaliseRows>> samples() {
    return {{{}, {{{7}}}}, {{}, {{{3, 5}}}}, {{}, {{{2, 3, 1030}}}}, {{}, {{{0, 4}}}}};
  }
};
PURSUIT_OPERATOR(NormaliseRows)

}  // namespace exercises
