#pragma once
#include "cuda/mean_loss.cuh"

// A label that is neither a class nor ignore_index makes the loss and its row of the gradient NaN, because a
// kernel cannot throw.
#ifdef PURSUIT_GPU
namespace pursuit::cuda {

template <class Team, class T> __global__ void cross_entropy_kernel(const T* logits, const int64_t* labels,
                                                                    int64_t n, int64_t cols, float smoothing,
                                                                    int64_t ignore_index, MeanLoss mean) {
  Shared shared;
  const Team team(cols, shared);
  float sum = 0;
  int64_t counted = 0;
  for (int64_t i = team.first(); i < n; i += team.step()) {
    const int64_t label = labels[i];
    if (label == ignore_index) continue;
    const T* z = logits + i * cols;
    const auto row = team.read(z);
    const Exponentials e = exponentials(team, row);
    const float z_label = label >= 0 && label < cols ? upcast(z[label]) - e.most : NAN;
    float z_mean = 0;
    if (smoothing != 0) {
      team.each([&](int64_t, float v) { z_mean += v - e.most; }, row);
      z_mean = team.sum(z_mean) / float(cols);
    }
    sum += logf(e.sum) - (1 - smoothing) * z_label - smoothing * z_mean;
    ++counted;
  }
  mean.add_up(team.leads() ? sum : 0, team.leads() ? float(counted) : 0, shared);
}

// gx = factor (softmax(logits) - target) by rows; factor is one number in device memory.
template <class Team, class T>
__global__ void cross_entropy_gradient_kernel(const T* logits, const int64_t* labels, int64_t n, int64_t cols,
                                              float smoothing, int64_t ignore_index, const float* factor,
                                              T* gx) {
  const Team team(cols);
  for (int64_t i = team.first(); i < n; i += team.step()) {
    const int64_t label = labels[i];
    if (label == ignore_index) {
      team.write(gx + i * cols, [](int64_t) { return 0.0f; });
      continue;
    }
    const auto row = team.read(logits + i * cols);
    const Exponentials e = exponentials(team, row);
    const float f = label >= 0 && label < cols ? *factor : NAN;
    const float of_exp = f / e.sum, of_all = f * smoothing / float(cols), of_label = f * (1 - smoothing);
    team.write(
        gx + i * cols,
        [&](int64_t j, float v) {
          return exp_of<T>(v - e.most) * of_exp - of_all - (j == label ? of_label : 0.0f);
        },
        row);
  }
}

}  // namespace pursuit::cuda
#endif
