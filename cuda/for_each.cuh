#pragma once
#include <cstdint>
#include <utility>

#include "cuda/launch.h"
#include "cuda/pack.h"
#include "engine/core/device.h"

// Elementwise loops on a GPU; see engine/operator/for_each.h.
#ifdef PURSUIT_GPU
namespace pursuit {

template <int N> struct Layout;

template <class I, int N, class F, size_t... K>
__device__ void call_at(const Layout<N>& l, I i, const F& f, std::index_sequence<K...>) {
  int64_t offset[N] = {};
  for (int d = l.ndim - 1; d > 0; --d) {
    const I size = I(l.size[d]), at = i % size;
    i /= size;
    for (int k = 0; k < N; ++k) offset[k] += int64_t(at) * l.stride[k][d];
  }
  f((offset[K] + int64_t(i) * l.stride[K][0])...);
}

// An element a thread at a time; 64-bit divisions are slow and rarely needed.
template <int N, class F> __global__ void for_each_kernel(Layout<N> l, F f) {
  const auto operands = std::make_index_sequence<N>{};
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < l.numel;
       i += int64_t(gridDim.x) * blockDim.x)
    if (l.numel <= INT32_MAX)
      call_at(l, uint32_t(i), f, operands);
    else
      call_at(l, i, f, operands);
}

// F::width neighbours a thread at a time; the last ones, which are fewer, by themselves.
template <int N, class F> __global__ void for_each_pack_kernel(Layout<N> l, F f) {
  constexpr int64_t width = F::width;
  for (int64_t i = (blockIdx.x * int64_t(blockDim.x) + threadIdx.x) * width; i < l.numel;
       i += int64_t(gridDim.x) * blockDim.x * width)
    if (i + width <= l.numel)
      f.pack(i);
    else
      for (int64_t j = i; j < l.numel; ++j) call_at(l, j, f, std::make_index_sequence<N>{});
}

// An F with `pack(i)`, which does elements i to i + width - 1 of contiguous operands at once, gets to do so.
template <int N, class F> void for_each(Cuda, const Layout<N>& l, const F& f) {
  if (l.numel == 0) return;
  if constexpr (requires { F::width; }) {
    bool packs = l.ndim == 1 && f.aligned();
    for (int k = 0; k < N; ++k) packs = packs && l.stride[k][0] == 1;
    if (packs)
      return cuda::launch<for_each_pack_kernel<N, F>>({cuda::blocks_for(l.numel, 256 * F::width), 256}, l, f);
  }
  cuda::launch<for_each_kernel<N, F>>({cuda::blocks_for(l.numel, 256), 256}, l, f);
}

}  // namespace pursuit
#endif
