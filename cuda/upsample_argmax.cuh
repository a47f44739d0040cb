#pragma once
#include "cuda/upsample_cross_entropy.cuh"

#ifdef PURSUIT_GPU
#include "cuda/argmax.cuh"

namespace pursuit::cuda {

// y [B, height, width] = the class of each pixel, one warp per pixel. x [B, rows, cols, classes].
template <class T> __global__ void upsample_argmax_kernel(const T* x, int64_t* y, Upsampling s) {
  const Team<1, true> team(s.classes);
  const Axis down{s.rows, s.height}, across{s.cols, s.width};
  for (int64_t p = team.first(); p < s.pixels(); p += team.step()) {
    const int64_t j = p % s.width, i = p / s.width % s.height;
    const int64_t row = down.input(i), col = across.input(j);
    const Corners corners(s, p / s.width / s.height, row, col);
    const CornerWeights weights(down.weight(i, row), across.weight(j, col));
    uint64_t best = 0;
    for (int64_t c = threadIdx.x % warp_size; c < s.classes; c += warp_size) {
      float v[4];
      for (int k = 0; k < 4; ++k) v[k] = upcast(x[corners.token[k] * s.classes + c]);
      best = max(best, rank_of(weights.mix(v), c));
    }
    best = team.reduce(best, [](uint64_t a, uint64_t b) { return max(a, b); });
    if (team.leads()) y[p] = int64_t(~uint32_t(best));
  }
}

}  // namespace pursuit::cuda
#endif
