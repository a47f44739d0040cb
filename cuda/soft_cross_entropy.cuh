#pragma once
#include "cuda/mean_loss.cuh"

#ifdef PURSUIT_GPU
namespace pursuit::cuda {

// Entries with target 0 contribute 0, even if the logit is -inf.
template <class Team, class T> __global__ void soft_cross_entropy_kernel(const T* logits, const T* targets,
                                                                         int64_t n, int64_t cols,
                                                                         MeanLoss mean) {
  Shared shared;
  const Team team(cols, shared);
  float sum = 0;
  int64_t counted = 0;
  for (int64_t i = team.first(); i < n; i += team.step()) {
    const auto z = team.read(logits + i * cols), t = team.read(targets + i * cols);
    const Exponentials e = exponentials(team, z);
    float sum_t = 0, sum_tz = 0;
    team.each(
        [&](int64_t, float zj, float tj) {
          sum_t += tj;
          sum_tz += tj == 0 ? 0.0f : tj * (zj - e.most);
        },
        z, t);
    sum += logf(e.sum) * team.sum(sum_t) - team.sum(sum_tz);
    ++counted;
  }
  mean.add_up(team.leads() ? sum : 0, team.leads() ? float(counted) : 0, shared);
}

// gx = factor (softmax(logits) sum(targets) - targets) by rows; factor is one number in device memory.
template <class Team, class T>
__global__ void soft_cross_entropy_gradient_kernel(const T* logits, const T* targets, int64_t n, int64_t cols,
                                                   const float* factor, T* gx) {
  const Team team(cols);
  const float f = *factor;
  for (int64_t i = team.first(); i < n; i += team.step()) {
    const auto z = team.read(logits + i * cols), t = team.read(targets + i * cols);
    const Exponentials e = exponentials(team, z);
    float sum_t = 0;
    team.each([&](int64_t, float tj) { sum_t += tj; }, t);
    const float of_exp = team.sum(sum_t) / e.sum;
    team.write(
        gx + i * cols,
        [&](int64_t, float zj, float tj) { return f * (exp_of<T>(zj - e.most) * of_exp - tj); }, z, t);
  }
}

}  // namespace pursuit::cuda
#endif
