#pragma once
#include "cuda/row.cuh"

// Cross-entropy over classes tile by tile: s [n, width] are the logits
// of classes first ... first + width - 1 of `all`. A label that is
// neither a class nor ignore_index makes the loss and its row of the
// gradient NaN.
#ifdef PURSUIT_GPU
namespace pursuit::cuda {

// Adds the tile to stats [n, 2] (the largest logit so far and the sum of exp(logit - largest)). After the
// last tile the sum is replaced by its inverse, and loss [n], initially 0, is -log p(label).
template <class Team>
__global__ void class_tile_kernel(const float* s, const int64_t* labels, int64_t ignore_index, int64_t n,
                                  int64_t width, int64_t first, int64_t all, float* stats, float* loss) {
  const Team team(width);
  for (int64_t i = team.first(); i < n; i += team.step()) {
    const Exponentials e = exponentials(team, team.read(s + i * width));
    if (!team.leads()) continue;
    float most = e.most, sum = e.sum;
    if (first > 0) {
      most = fmaxf(most, stats[2 * i]);
      sum = e.sum * expf(e.most - most) + stats[2 * i + 1] * expf(stats[2 * i] - most);
    }
    const bool last = first + width == all;
    stats[2 * i] = most;
    stats[2 * i + 1] = last ? 1 / sum : sum;
    const int64_t label = labels[i];
    if (label == ignore_index) continue;
    if (label < 0 || label >= all)
      loss[i] = NAN;
    else if (label >= first && label < first + width)
      loss[i] = -s[i * width + label - first];
    if (last) loss[i] += most + logf(sum);
  }
}

// g [n, width] = factor (p - target); factor is one number in device memory, stats as written by the kernel
// above.
template <class Team, class T>
__global__ void class_tile_gradient_kernel(const float* s, const int64_t* labels, int64_t ignore_index,
                                           int64_t n, int64_t width, int64_t first, int64_t all,
                                           const float* stats, const float* factor, T* g) {
  const Team team(width);
  for (int64_t i = team.first(); i < n; i += team.step()) {
    const int64_t label = labels[i], at = label - first;
    if (label == ignore_index) {
      team.write(g + i * width, [](int64_t) { return 0.0f; });
      continue;
    }
    const float f = label >= 0 && label < all ? *factor : NAN;
    const float most = stats[2 * i], of_exp = f * stats[2 * i + 1];
    team.write(
        g + i * width,
        [&](int64_t j, float v) { return exp_of<T>(v - most) * of_exp - (j == at ? f : 0.0f); },
        team.read(s + i * width));
  }
}

}  // namespace pursuit::cuda
#endif
