#pragma once
#include "cuda/launch.h"
#include "cuda/pack.h"

#ifdef PURSUIT_GPU
namespace pursuit::cuda {

// Converts images [n, channels, height, width] to patches [n * down * across, channels * patch * patch], or
// back. A block moves a strip of adjacent patches: `patch` lines of every channel, in order of the lines.
template <bool to_images, int V, class T>
__global__ void patches_kernel(const T* from, T* to, int channels, int height, int width, int patch) {
  const int down = height / patch, across = width / patch, packs = width / V,
            length = channels * patch * patch;
  const int64_t n = blockIdx.x / down, y = blockIdx.x % down * patch;
  for (int p = int(threadIdx.x); p < channels * patch * packs; p += int(blockDim.x)) {
    const int line = p / packs, x = p % packs * V;
    const int64_t image = ((n * channels + line / patch) * height + y + line % patch) * width + x;
    const int64_t vector = (int64_t(blockIdx.x) * across + x / patch) * length + line * patch + x % patch;
    store_pack(to + (to_images ? image : vector), load_pack<V>(from + (to_images ? vector : image)));
  }
}

}  // namespace pursuit::cuda
#endif
