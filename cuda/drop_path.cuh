#pragma once
#include <algorithm>

#include "cuda/launch.h"
#include "cuda/pack.h"
#include "engine/base/random.h"

#ifdef PURSUIT_GPU
namespace pursuit::cuda {

// y = residual + scale x for kept samples, the residual alone (null: 0) for dropped ones; all are [samples,
// inner]. X and Y are the same type, or one is float and the other bf16. A row of blocks handles one sample:
// a thread draws once for it, then processes its packs.
template <int V, class X, class Y>
__global__ void drop_path_kernel(const X* x, const Y* residual, Y* y, int64_t samples, int64_t inner,
                                 uint64_t seed, uint64_t stream, const int64_t* counter, float keep,
                                 float scale) {
  const Draws d = draws_of(stream, samples, counter);
  for (int64_t s = blockIdx.y; s < samples; s += gridDim.y) {
    const bool kept = philox_uniform(seed, d.stream, d.first + uint64_t(s)) < keep;
    for (int64_t i = (blockIdx.x * int64_t(blockDim.x) + threadIdx.x) * V; i < inner;
         i += int64_t(gridDim.x) * blockDim.x * V) {
      Pack<Y, V> sum = {};
      if (residual) sum = load_pack<V>(residual + s * inner + i);
      if (kept) {
        const Pack<X, V> pack = load_pack<V>(x + s * inner + i);
        for (int v = 0; v < V; ++v) sum.v[v] = downcast<Y>(upcast(sum.v[v]) + upcast(pack.v[v]) * scale);
      }
      store_pack(y + s * inner + i, sum);
    }
  }
}

template <class X, class Y> void drop_path(const X* x, const Y* residual, Y* y, int64_t samples,
                                           int64_t inner, uint64_t seed, uint64_t stream,
                                           const int64_t* counter, float keep, float scale) {
  using Wide = std::conditional_t<(sizeof(X) > sizeof(Y)), X, Y>;
  with_pack<Wide>(inner, {x, residual}, [&]<int V>() {
    constexpr int threads = 256, packs_of_thread = 4;
    const dim3 blocks(blocks_for(inner, threads * V * packs_of_thread),
                      unsigned(std::min<int64_t>(samples, 65535)));
    launch<drop_path_kernel<V, X, Y>>({blocks, threads}, x, residual, y, samples, inner, seed, stream,
                                      counter, keep, scale);
  });
}

}  // namespace pursuit::cuda
#endif
