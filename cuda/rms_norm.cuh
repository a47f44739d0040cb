#pragma once
#include "cuda/team_sums.cuh"

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

// With n = x rrms and g = gy weight: gx = rrms (g - n average(g n)). gw [cols] receives the sums of gy n over
// all rows; part: memory for [blocks, cols].
template <class Team, class T, class Y> __global__ void __launch_bounds__(Team::threads)
    rms_norm_gradient_kernel(const T* x, const Y* gy, const float* weight, const float* rrms, int64_t n,
                             int64_t cols, T* gx, float* part, float* gw) {
  Shared shared;
  const Team team(cols, shared);
  float* sums = shared.array<float>(Team::teams_of_block * cols);
  int* flag = shared.array<int>(1);
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
  add_up_teams(team, sums, 1, cols, part, gw, flag);
}

}  // namespace pursuit::cuda
#endif
