#pragma once
#include "cuda/column_sums.cuh"
#include "cuda/row.cuh"

#ifdef PURSUIT_GPU
namespace pursuit::cuda {

// y = x rrms weight by rows, rrms = 1 / sqrt(average x^2 + eps). T is the type of x and gx, Y that of y and
// gy.
template <class Team, class T, class Y> __global__ void rms_norm_kernel(const T* x, const float* weight,
                                                                        int64_t n, int64_t cols, float eps,
                                                                        Y* y, float* rrms) {
  const Team team(cols);
  const auto w = team.stream(weight);
  for (int64_t i = team.first(); i < n; i += team.step()) {
    const auto row = team.read(x + i * cols);
    float squares = 0;
    team.each([&](int64_t, float v) { squares += v * v; }, row);
    const float scale = 1 / sqrtf(team.sum(squares) / float(cols) + eps);
    team.write(
        y + i * cols, [&](int64_t, float v, float wj) { return v * scale * wj; }, row, w);
    if (team.leads()) rrms[i] = scale;
  }
}

// With n = x rrms and g = gy weight: gx = rrms (g - n average(g n)). part [blocks, cols] receives the sums of
// gy n over each block's rows, for which a team has cols floats of shared memory. Bounds as for layer norm.
template <class Team, class T, class Y> __global__ void __launch_bounds__(Team::threads, 640 / Team::threads)
    rms_norm_gradient_kernel(const T* x, const Y* gy, const float* weight, const float* rrms, int64_t n,
                             int64_t cols, T* gx, float* part) {
  Shared shared;
  const Team team(cols, shared);
  float* sums = shared.array<float>(Team::teams_of_block * cols);
  float* mine = sums + team.first() % Team::teams_of_block * cols;
  const auto w = team.stream(weight);
  team.each([&](int64_t j, float) { mine[team.place(j)] = 0; }, w);

  for (int64_t i = team.first(); i < n; i += team.step()) {
    const auto row = team.read(x + i * cols);
    const auto up = team.read(gy + i * cols);
    const float scale = rrms[i];
    float sum = 0;
    team.each(
        [&](int64_t j, float v, float u, float wj) {
          const float product = u * (v * scale);
          mine[team.place(j)] += product;
          sum += product * wj;
        },
        row, up, w);
    const float average = team.sum(sum) / float(cols);
    team.write(
        gx + i * cols,
        [&](int64_t, float v, float u, float wj) { return scale * (u * wj - v * scale * average); }, row, up,
        w);
  }

  __syncthreads();
  for (int64_t j = threadIdx.x; j < cols; j += blockDim.x) {
    float sum = 0;
    for (int t = 0; t < Team::teams_of_block; ++t) sum += sums[t * cols + team.place(j)];
    part[blockIdx.x * cols + j] = sum;
  }
}

}  // namespace pursuit::cuda
#endif
