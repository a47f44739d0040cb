#pragma once
#include "cuda/layer_norm.cuh"
#include "engine/base/random.h"

#ifdef PURSUIT_GPU
namespace pursuit::cuda {

// drop_path's factor of a row: `scale` in the samples, of `rows` rows each, that are kept, 0 in the others.
struct DropFactor {
  uint64_t seed, stream;
  const int64_t* counter;
  int64_t samples, rows;
  float keep, scale;

  __device__ float operator()(int64_t row) const {
    const Draws d = draws_of(stream, samples, counter);
    return philox_uniform(seed, d.stream, d.first + uint64_t(row / rows)) < keep ? scale : 0;
  }
};

// sum = residual + factor branch by rows, and y = its layer norm. T is the type of residual and sum, Y that
// of branch and y.
template <class Team, class T, class Y>
__global__ void add_norm_kernel(const T* residual, const Y* branch, DropFactor factor, const float* weight,
                                const float* bias, int64_t n, int64_t cols, float eps, T* sum, Y* y,
                                float* mean, float* rstd) {
  const Team team(cols);
  for (int64_t i = team.first(); i < n; i += team.step()) {
    const float f = factor(i);
    const auto plus = team.read(residual + i * cols);
    const auto row = f != 0 ? team.write_row(
                                  sum + i * cols, [&](int64_t, float a, float b) { return a + f * b; }, plus,
                                  team.read(branch + i * cols))
                            : team.write_row(
                                  sum + i * cols, [](int64_t, float a) { return a; }, plus);
    normalise_row(team, row, weight, bias, cols, eps, y + i * cols, mean + i, rstd + i);
  }
}

template <class T, class Y> void add_norm(const T* residual, const Y* branch, const DropFactor& factor,
                                          const float* weight, const float* bias, int64_t n, int64_t cols,
                                          float eps, T* sum, Y* y, float* mean, float* rstd) {
  if (n * cols == 0) return;
  with_team<T>(cols, {residual, branch, weight, bias, sum, y}, [&]<class Team>(Type<Team>) {
    launch<add_norm_kernel<Team, T, Y>>(Team::grid(n), residual, branch, factor, weight, bias, n, cols, eps,
                                        sum, y, mean, rstd);
  });
}

}  // namespace pursuit::cuda
#endif
