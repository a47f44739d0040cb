#pragma once
#include "cuda/row.cuh"

#ifdef PURSUIT_GPU
namespace pursuit::cuda {

// p = softmax(x), y = clip((zeta - gamma) p + gamma, 0, 1) by rows.
template <class Team, class T> __global__ void clipped_softmax_kernel(const T* x, T* p, T* y, int64_t n,
                                                                      int64_t cols, float gamma, float zeta) {
  const Team team(cols);
  for (int64_t i = team.first(); i < n; i += team.step()) {
    const auto row = team.read(x + i * cols);
    const Exponentials e = exponentials(team, row);
    const float inverse = e.sum == 0 ? 0.0f : 1 / e.sum;
    const auto softmax = [&](int64_t, float v) { return exp_of<T>(v - e.most) * inverse; };
    team.write(p + i * cols, softmax, row);
    team.write(
        y + i * cols,
        [&](int64_t j, float v) {
          const float stretched = (zeta - gamma) * softmax(j, v) + gamma;
          const float capped = stretched > 1 ? 1.0f : stretched;  // keeps NaN
          return capped < 0 ? 0.0f : capped;
        },
        row);
  }
}

// gx = p (d - p . d) by rows; d = (zeta - gamma) gy where nothing was clipped, else 0.
template <class Team, class T> __global__ void clipped_softmax_gradient_kernel(const T* p, const T* gy, T* gx,
                                                                               int64_t n, int64_t cols,
                                                                               float gamma, float zeta) {
  const Team team(cols);
  const auto unclipped = [&](float pj, float gj) {
    const float stretched = (zeta - gamma) * pj + gamma;
    return stretched > 1 || stretched < 0 ? 0.0f : (zeta - gamma) * gj;
  };
  for (int64_t i = team.first(); i < n; i += team.step()) {
    const auto row = team.read(p + i * cols), g = team.read(gy + i * cols);
    float dot = 0;
    team.each([&](int64_t, float pj, float gj) { dot += pj * unclipped(pj, gj); }, row, g);
    dot = team.sum(dot);
    team.write(
        gx + i * cols, [&](int64_t, float pj, float gj) { return pj * (unclipped(pj, gj) - dot); }, row, g);
  }
}

}  // namespace pursuit::cuda
#endif
