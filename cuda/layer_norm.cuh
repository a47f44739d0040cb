#pragma once
#include "cuda/column_sums.cuh"
#include "cuda/row.cuh"

#ifdef PURSUIT_GPU
namespace pursuit::cuda {

// y = (x - mean) rstd weight + bias by rows, rstd = 1 / sqrt(variance + eps). T is the type of x and gx, Y
// that of y and gy.
template <class Team, class T, class Y>
__global__ void layer_norm_kernel(const T* x, const float* weight, const float* bias, int64_t n, int64_t cols,
                                  float eps, Y* y, float* mean, float* rstd) {
  const Team team(cols);
  const auto w = team.stream(weight), b = team.stream(bias);
  for (int64_t i = team.first(); i < n; i += team.step()) {
    const auto row = team.read(x + i * cols);
    float sum = 0, squares = 0;
    team.each([&](int64_t, float v) { sum += v; }, row);
    const float centre = team.sum(sum) / float(cols);
    team.each([&](int64_t, float v) { squares += (v - centre) * (v - centre); }, row);
    const float spread = 1 / sqrtf(team.sum(squares) / float(cols) + eps);
    team.write(
        y + i * cols, [&](int64_t, float v, float wj, float bj) { return (v - centre) * spread * wj + bj; },
        row, w, b);
    if (team.leads()) {
      mean[i] = centre;
      rstd[i] = spread;
    }
  }
}

// With n = (x - mean) rstd and g = gy weight: gx = rstd (g - average(g) - n average(g n)), plus so_far (which
// may be gx) if `adds`. part [blocks, 2, cols] receives the sums of gy n and of gy over each block's rows,
// for which a team has 2 cols floats of shared memory. The launch bounds allow 20 warps per multiprocessor:
// enough loads in flight.
template <class Team, class T, class Y, bool adds>
__global__ void __launch_bounds__(Team::threads, 640 / Team::threads)
    layer_norm_gradient_kernel(const T* x, const Y* gy, const float* weight, const float* mean,
                               const float* rstd, int64_t n, int64_t cols, const T* so_far, T* gx,
                               float* part) {
  Shared shared;
  const Team team(cols, shared);
  float* sums = shared.array<float>(Team::teams_of_block * 2 * cols);
  float* mine = sums + team.first() % Team::teams_of_block * 2 * cols;
  const auto w = team.stream(weight);
  team.each([&](int64_t j, float) { mine[team.place(j)] = mine[cols + team.place(j)] = 0; }, w);

  for (int64_t i = team.first(); i < n; i += team.step()) {
    const auto row = team.read(x + i * cols);
    const auto up = team.read(gy + i * cols);
    const float centre = mean[i], spread = rstd[i];
    float sum_g = 0, sum_gn = 0;
    team.each(
        [&](int64_t j, float v, float u, float wj) {
          const float normal = (v - centre) * spread;
          mine[team.place(j)] += u * normal;
          mine[cols + team.place(j)] += u;
          sum_g += u * wj;
          sum_gn += u * wj * normal;
        },
        row, up, w);
    const float average_g = team.sum(sum_g) / float(cols), average_gn = team.sum(sum_gn) / float(cols);
    const auto gradient = [&](int64_t, float v, float u, float wj) {
      return spread * (u * wj - average_g - (v - centre) * spread * average_gn);
    };
    if constexpr (adds) {
      team.write(
          gx + i * cols,
          [&](int64_t j, float v, float u, float wj, float sum) { return sum + gradient(j, v, u, wj); }, row,
          up, w, team.stream(so_far + i * cols));
    } else {
      team.write(gx + i * cols, gradient, row, up, w);
    }
  }

  __syncthreads();
  for (int64_t j = threadIdx.x; j < cols; j += blockDim.x)
    for (int64_t k = 0; k < 2 * cols; k += cols) {
      float sum = 0;
      for (int t = 0; t < Team::teams_of_block; ++t) sum += sums[t * 2 * cols + k + team.place(j)];
      part[blockIdx.x * 2 * cols + k + j] = sum;
    }
}

}  // namespace pursuit::cuda
#endif
