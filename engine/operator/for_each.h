#pragma once
#include <algorithm>
#include <array>
#include <utility>

#include "cuda/for_each.cuh"
#include "engine/core/device.h"
#include "engine/core/tensor.h"
#include "engine/cpu/parallel.h"
// The elementwise loop over strided tensors, for both backends. All elementwise code uses it.
namespace pursuit {

// The common index space of N operands: dimensions of size 1 are dropped, and adjacent dimensions are merged
// where all operands are contiguous across them.
template <int N> struct Layout {
  int ndim = 0;
  int64_t numel = 1;
  int64_t size[Shape::max_dims];
  int64_t stride[N][Shape::max_dims];
};

// x's strides broadcast to `shape`: 0 along broadcast dimensions.
inline Shape broadcast_strides(const Tensor& x, const Shape& shape) {
  Shape strides = shape;
  const int lead = shape.size() - x.ndim();
  for (int i = 0; i < shape.size(); ++i)
    strides[i] = i < lead || x.shape()[i - lead] == 1 ? 0 : x.strides()[i - lead];
  return strides;
}

template <class... T> Layout<sizeof...(T)> layout_of(const Shape& shape, const T&... operands) {
  constexpr int N = sizeof...(T);
  const std::array<Shape, N> strides{broadcast_strides(operands, shape)...};
  Layout<N> l;
  l.numel = shape.numel();
  for (int d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    bool merges = l.ndim > 0;
    for (int k = 0; merges && k < N; ++k) merges = l.stride[k][l.ndim - 1] == strides[k][d] * shape[d];
    if (!merges) l.size[l.ndim++] = 1;
    l.size[l.ndim - 1] *= shape[d];
    for (int k = 0; k < N; ++k) l.stride[k][l.ndim - 1] = strides[k][d];
  }
  if (l.ndim == 0) {
    l.ndim = 1;
    l.size[0] = l.numel;
    for (int k = 0; k < N; ++k) l.stride[k][0] = 1;
  }
  return l;
}

template <int N, class F, size_t... K> void for_each_row(const Layout<N>& l, const int64_t* base,
                                                         int64_t begin, int64_t end, const F& f,
                                                         std::index_sequence<K...>) {
  const int last = l.ndim - 1;
  if (((l.stride[K][last] == 1) && ...)) {
    for (int64_t i = begin; i < end; ++i) f((base[K] + i)...);
  } else {
    for (int64_t i = begin; i < end; ++i) f((base[K] + i * l.stride[K][last])...);
  }
}

// Calls f(offset of operand 0, offset of operand 1, ...) for every element. `cost`: a call's, in additions.
template <int N, class F> void for_each(Cpu, const Layout<N>& l, const F& f, int64_t cost = 1) {
  if (l.numel == 0) return;
  const int64_t grain = std::max<int64_t>(1, 16384 / cost);
  const auto operands = std::make_index_sequence<N>{};
  const int last = l.ndim - 1;
  const int64_t inner = l.size[last], outer = l.numel / inner;
  if (outer == 1) {
    const int64_t origin[N] = {};
    parallel_for(inner, grain, [&](int64_t b, int64_t e) { for_each_row(l, origin, b, e, f, operands); });
    return;
  }
  parallel_for(outer, std::max<int64_t>(1, grain / inner), [&](int64_t b, int64_t e) {
    int64_t index[Shape::max_dims] = {};
    int64_t base[N] = {};
    int64_t rest = b;
    for (int d = last - 1; d >= 0; --d) {
      index[d] = rest % l.size[d];
      rest /= l.size[d];
      for (int k = 0; k < N; ++k) base[k] += index[d] * l.stride[k][d];
    }
    for (int64_t row = b; row < e; ++row) {
      for_each_row(l, base, 0, inner, f, operands);
      for (int d = last - 1; d >= 0; --d) {
        for (int k = 0; k < N; ++k) base[k] += l.stride[k][d];
        if (++index[d] < l.size[d]) break;
        for (int k = 0; k < N; ++k) base[k] -= l.size[d] * l.stride[k][d];
        index[d] = 0;
      }
    }
  });
}

// y = f(x...) for N arrays x: for_each calls it with the offsets in y and in each x.
template <class F, class Y, class X, int N> struct Map {
  F f;
  Y* y;
  const X* x[N];

  template <class... I> HD void operator()(int64_t to, I... from) const {
    const int64_t at[] = {from...};
    y[to] = of([&](int k) { return x[k][at[k]]; }, std::make_index_sequence<N>{});
  }
#ifdef PURSUIT_GPU
  static constexpr int width = int(16 / std::max(sizeof(X), sizeof(Y)));
  bool aligned() const {
    return cuda::aligned(y) && std::all_of(x, x + N, [](const X* p) { return cuda::aligned(p); });
  }
  __device__ void pack(int64_t i) const {
    cuda::Pack<X, width> in[N];
    cuda::Pack<Y, width> out;
    for (int k = 0; k < N; ++k) in[k] = cuda::load_pack<width>(x[k] + i);
    for (int v = 0; v < width; ++v)
      out.v[v] = of([&](int k) { return in[k].v[v]; }, std::make_index_sequence<N>{});
    cuda::store_pack(y + i, out);
  }
#endif

 private:
  template <class Get, size_t... K> HD Y of(const Get& get, std::index_sequence<K...>) const {
    return f(get(int(K))...);
  }
};
template <class F, class Y, class X, class... Same>
Map<F, Y, X, 1 + sizeof...(Same)> map_to(Y* y, const F& f, const X* x, const Same*... more) {
  return {f, y, {x, more...}};
}

}  // namespace pursuit
