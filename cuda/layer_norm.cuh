#pragma once
#include "cuda/team_sums.cuh"

#ifdef PURSUIT_GPU
namespace pursuit::cuda {

// y = (x - mean) rstd weight + bias by rows, rstd = 1 / sqrt(variance + eps). T is the type of x and gx, Y
// that of y and gy.
template <class Team, class Row, class Y>
__device__ void normalise_row(const Team& team, const Row& row, const float* weight, const float* bias,
                              int64_t cols, float eps, Y* y, float* mean, float* rstd) {
  float sum = 0, squares = 0;
  team.each([&](int64_t, float v) { sum += v; }, row);
  const float centre = team.sum(sum) / float(cols);
  team.each([&](int64_t, float v) { squares += (v - centre) * (v - centre); }, row);
  const float spread = 1 / sqrtf(team.sum(squares) / float(cols) + eps);
  team.write(
      y, [&](int64_t, float v, float wj, float bj) { return (v - centre) * spread * wj + bj; }, row,
      team.stream(weight), team.stream(bias));
  if (team.leads()) {
    *mean = centre;
    *rstd = spread;
  }
}

template <class Team, class T, class Y>
__global__ void layer_norm_kernel(const T* x, const float* weight, const float* bias, int64_t n, int64_t cols,
                                  float eps, Y* y, float* mean, float* rstd) {
  const Team team(cols);
  for (int64_t i = team.first(); i < n; i += team.step())
    normalise_row(team, team.read(x + i * cols), weight, bias, cols, eps, y + i * cols, mean + i, rstd + i);
}

// The factor of every row of a branch that nothing drops.
struct NoFactor {
  __device__ float operator()(int64_t) const { return 1; }
};

// With n = (x - mean) rstd and g = gy weight: gx = rstd (g - average(g) - n average(g n)), plus so_far (which
// may be gx) if `adds`; narrow is factor(row) times that, in Y, if Y is narrower than T or rows have factors.
// gp [2, cols] receives the sums of gy n and of gy over all rows; part: memory for [blocks, 2, cols].
template <class Team, class T, class Y, bool adds, class Factor>
__global__ void __launch_bounds__(Team::threads)
    layer_norm_gradient_kernel(const T* x, const Y* gy, const float* weight, const float* mean,
                               const float* rstd, int64_t n, int64_t cols, const T* so_far, T* gx, Y* narrow,
                               Factor factor, float* part, float* gp) {
  Shared shared;
  const Team team(cols, shared);
  float* sums = shared.array<float>(Team::teams_of_block * 2 * cols);
  int* flag = shared.array<int>(1);
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
    const auto write = [&](const auto& f, const auto&... rows) {
      if constexpr (std::is_same_v<T, Y> && std::is_same_v<Factor, NoFactor>)
        team.write(gx + i * cols, f, rows...);
      else
        team.write_both(gx + i * cols, narrow + i * cols, factor(i), f, rows...);
    };
    if constexpr (adds)
      write([&](int64_t j, float v, float u, float wj, float sum) { return sum + gradient(j, v, u, wj); },
            row, up, w, team.stream(so_far + i * cols));
    else
      write(gradient, row, up, w);
  }
  add_up_teams(team, sums, 2, cols, part, gp, flag);
}

// so_far may be null.
template <class T, class Y, class Factor>
void layer_norm_gradient(const T* x, const Y* gy, const float* weight, const float* mean, const float* rstd,
                         int64_t n, int64_t cols, const T* so_far, T* gx, Y* narrow, const Factor& factor,
                         float* gp) {
  if (cols == 0) return;
  with_team<T, summing_warps>(cols, {x, weight, gy, so_far, gx, narrow}, [&]<class Team>(Type<Team>) {
    const Grid grid = summing_grid<Team>("layer_norm", n, 2, cols);
    const Workspace<float> part(grid.blocks.x * 2 * cols);
    const auto start = [&]<bool adds>(std::bool_constant<adds>) {
      launch<layer_norm_gradient_kernel<Team, T, Y, adds, Factor>>(
          grid, x, gy, weight, mean, rstd, n, cols, so_far, gx, narrow, factor, part.data(), gp);
    };
    so_far ? start(std::true_type()) : start(std::false_type());
  });
}

}  // namespace pursuit::cuda
#endif
