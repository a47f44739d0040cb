// An operator outside the engine with kernels of its own on both backends: y = x / |x|, row by row.
#include "cuda/row.cuh"
#include "engine/cpu/parallel.h"
#include "engine/operator/operator.h"
#include "engine/ops.h"

using namespace pursuit;

#ifdef PURSUIT_GPU
template <class Team, class T>
__global__ void normalise_rows_kernel(const T* x, T* y, float* lengths, int64_t n, int64_t cols) {
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
#endif

struct NormaliseRows {
  static constexpr const char* name = "normalise_rows";
  Tensor y = {}, lengths = {};  // lengths [..., 1], in the type that sums have: f32 for bf16

  template <class T>
  static void kernel(Cpu, const T* x, T* y, compute_t<T>* lengths, int64_t n, int64_t cols) {
    parallel_for(n, /*rows a thread at least*/ 64, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        compute_t<T> squares = 0;
        for (int64_t j = 0; j < cols; ++j) squares += upcast(x[i * cols + j]) * upcast(x[i * cols + j]);
        lengths[i] = std::sqrt(squares);
        for (int64_t j = 0; j < cols; ++j)
          y[i * cols + j] = downcast<T>(upcast(x[i * cols + j]) / lengths[i]);
      }
    });
  }
#ifdef PURSUIT_GPU
  template <class T> static void kernel(Cuda, const T* x, T* y, float* lengths, int64_t n, int64_t cols) {
    cuda::with_team<T>(cols, {x, y}, [&]<class Team>(Type<Team>) {
      cuda::launch<normalise_rows_kernel<Team, T>>(Team::grid(n), x, y, lengths, n, cols);
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
  // gx = (gy - y (y . gy)) / |x|, from operators: a kernel of its own would spare passes over memory.
  Grads backward(const Tensor& gy, Needs) {
    const Tensor wide_y = y.to(lengths.dtype()), wide_gy = gy.to(lengths.dtype());
    const Tensor along = sum(wide_y * wide_gy, {-1}, true);
    return {((wide_gy - wide_y * along) / lengths).to(gy.dtype())};
  }
  Tensor reference(const Tensor& x) const { return x / sqrt(sum(square(x), {-1}, true)); }
  static std::vector<Sample<NormaliseRows>> samples() {
    return {{{}, {{{7}}}}, {{}, {{{3, 5}}}}, {{}, {{{2, 3, 1030}}}}, {{}, {{{0, 4}}}}};
  }
};
PURSUIT_OPERATOR(NormaliseRows)

Tensor normalise_rows(const Tensor& x) { return apply(NormaliseRows{}, x); }
