#pragma once
#include "cuda/row.cuh"

#ifdef PURSUIT_GPU
namespace pursuit::cuda {

// y = x - log sum exp(x) by rows; a row that is all -inf stays so.
template <class Team, class T> __global__ void log_softmax_kernel(const T* x, T* y, int64_t n, int64_t cols) {
  const Team team(cols);
  for (int64_t i = team.first(); i < n; i += team.step()) {
    const auto row = team.read(x + i * cols);
    const Exponentials e = exponentials(team, row);
    const float log_sum = e.sum == 0 ? 0.0f : logf(e.sum);
    team.write(
        y + i * cols, [&](int64_t, float v) { return (v - e.most) - log_sum; }, row);
  }
}

// gx = gy - p sum(gy) by rows, p = exp(y) normalised to sum 1; 0 for a row that is all -inf.
template <class Team, class T>
__global__ void log_softmax_gradient_kernel(const T* y, const T* gy, T* gx, int64_t n, int64_t cols) {
  const Team team(cols);
  for (int64_t i = team.first(); i < n; i += team.step()) {
    const auto row = team.read(y + i * cols), g = team.read(gy + i * cols);
    float sum_p = 0, sum_g = 0;
    team.each(
        [&](int64_t, float v, float gj) {
          sum_p += exp_of<T>(v);
          sum_g += gj;
        },
        row, g);
    sum_p = team.sum(sum_p);
    sum_g = team.sum(sum_g);
    const float keep = sum_p == 0 ? 0.0f : 1.0f, factor = sum_p == 0 ? 0.0f : sum_g / sum_p;
    team.write(
        gx + i * cols, [&](int64_t, float v, float gj) { return keep * gj - exp_of<T>(v) * factor; }, row, g);
  }
}

}  // namespace pursuit::cuda
#endif
