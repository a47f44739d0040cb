#pragma once
#include "cuda/row.cuh"
#include "cuda/workspace.h"

// Mean of the rows' losses in a fixed order: every team of a loss kernel sums its rows, and one block adds
// the teams' results.
#ifdef PURSUIT_GPU
namespace pursuit::cuda {

constexpr int64_t loss_blocks = 2048;  // upper limit; more blocks would only give the last one more to add

// part [teams, 2]: the sum of this team's losses and the number of rows that count.
template <class Team> __device__ void store_losses(const Team& team, float sum, int64_t rows, float* part) {
  if (!team.leads()) return;
  part[2 * team.first()] = sum;
  part[2 * team.first() + 1] = float(rows);
}

// mean = sum / rows over all parts and scale = 1 / rows; both are 0 if no row counts. One block.
using LossTeam = Team<1, false>;
static __global__ void mean_loss_kernel(const float* part, int64_t teams, float* mean, float* scale) {
  const LossTeam team(teams);
  float sum = 0, rows = 0;
  for (int64_t t = threadIdx.x; t < teams; t += blockDim.x) {
    sum += part[2 * t];
    rows += part[2 * t + 1];
  }
  sum = team.sum(sum);
  rows = team.sum(rows);
  if (!team.leads()) return;
  *scale = rows == 0 ? 0.0f : 1 / rows;
  *mean = sum * *scale;
}

// Calls losses(Grid, part) to launch a loss kernel for n rows, then computes their mean.
template <class Team, class F> void mean_of_losses(int64_t n, float* mean, float* scale, const F& losses) {
  const Grid grid = Team::grid(n, loss_blocks);
  const int64_t teams = Team::teams(grid);
  const Workspace<float> part(2 * teams);
  if (n) losses(grid, part.data());
  launch<mean_loss_kernel>(LossTeam::grid(1), part.data(), teams, mean, scale);
}

}  // namespace pursuit::cuda
#endif
