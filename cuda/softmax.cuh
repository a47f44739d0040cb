#pragma once
#include "cuda/row.cuh"

#ifdef PURSUIT_GPU
namespace pursuit::cuda {

// y = softmax(x) by rows; a row without finite entries becomes 0.
template <class Team, class T> __global__ void softmax_kernel(const T* x, T* y, int64_t n, int64_t cols) {
  const Team team(cols);
  for (int64_t i = team.first(); i < n; i += team.step()) {
    const auto row = team.read(x + i * cols);
    const Exponentials e = exponentials(team, row);
    const float inverse = e.sum == 0 ? 0.0f : 1 / e.sum;
    team.write(
        y + i * cols, [&](int64_t, float v) { return exp_of<T>(v - e.most) * inverse; }, row);
  }
}

// gx = y (gy - y . gy) by rows.
template <class Team, class T>
__global__ void softmax_gradient_kernel(const T* y, const T* gy, T* gx, int64_t n, int64_t cols) {
  const Team team(cols);
  for (int64_t i = team.first(); i < n; i += team.step()) {
    const auto p = team.read(y + i * cols), g = team.read(gy + i * cols);
    float dot = 0;
    team.each([&](int64_t, float pj, float gj) { dot += pj * gj; }, p, g);
    dot = team.sum(dot);
    team.write(
        gx + i * cols, [&](int64_t, float pj, float gj) { return pj * (gj - dot); }, p, g);
  }
}

}  // namespace pursuit::cuda
#endif
