#pragma once
#include <algorithm>

#include "cuda/launch.h"
#include "cuda/pack.h"
#include "engine/base/random.h"

#ifdef PURSUIT_GPU
namespace pursuit::cuda {

// y = scale x for the samples that are kept, 0 for the others; x and y [samples, inner]. A row of blocks has a
// sample, which a thread draws for once, before its packs of it.
template <int V, class T> __global__ void drop_path_kernel(const T* x, T* y, int64_t samples, int64_t inner,
                                                           uint64_t seed, uint64_t stream,
                                                           const int64_t* counter, float keep, float scale) {
  const Draws d = draws_of(stream, samples, counter);
  for (int64_t s = blockIdx.y; s < samples; s += gridDim.y) {
    const bool kept = philox_uniform(seed, d.stream, d.first + uint64_t(s)) < keep;
    for (int64_t i = (blockIdx.x * int64_t(blockDim.x) + threadIdx.x) * V; i < inner;
         i += int64_t(gridDim.x) * blockDim.x * V) {
      Pack<T, V> pack = {};
      if (kept) {
        pack = load_pack<V>(x + s * inner + i);
        for (int v = 0; v < V; ++v) pack.v[v] = downcast<T>(upcast(pack.v[v]) * scale);
      }
      store_pack(y + s * inner + i, pack);
    }
  }
}

template <class T> void drop_path(const T* x, T* y, int64_t samples, int64_t inner, uint64_t seed,
                                  uint64_t stream, const int64_t* counter, float keep, float scale) {
  with_pack<T>(inner, x, [&]<int V>() {
    constexpr int threads = 256, packs_of_thread = 4;
    const dim3 blocks(blocks_for(inner, threads * V * packs_of_thread),
                      unsigned(std::min<int64_t>(samples, 65535)));
    launch<drop_path_kernel<V, T>>({blocks, threads}, x, y, samples, inner, seed, stream, counter, keep,
                                   scale);
  });
}

}  // namespace pursuit::cuda
#endif
