#pragma once
#include "engine/core/dtype.h"

// Reductions of the ranks' numbers on the host.
namespace pursuit::distributed {

template <class T> void add(T* sum, const T* a, const T* b, size_t n) {
#pragma omp simd
  for (size_t i = 0; i < n; ++i) sum[i] = a[i] + b[i];
}
inline void add(bf16* sum, const bf16* a, const bf16* b, size_t n) {
#pragma omp simd
  for (size_t i = 0; i < n; ++i) sum[i] = downcast<bf16>(upcast(a[i]) + upcast(b[i]));
}
template <class T> void take_larger(T* larger, const T* a, const T* b, size_t n) {
#pragma omp simd
  for (size_t i = 0; i < n; ++i)
    larger[i] = a[i] > b[i] || a[i] != a[i] ? a[i] : b[i];  // NOLINT(misc-redundant-expression): NaN != NaN
}
template <class T> void scale(T* x, size_t n, int size) {
  const T factor = T(1) / T(size);
#pragma omp simd
  for (size_t i = 0; i < n; ++i) x[i] *= factor;
}
template <class To, class From> void convert(To* to, const From* from, size_t n) {
#pragma omp simd
  for (size_t i = 0; i < n; ++i) to[i] = downcast<To>(upcast(from[i]));
}

}  // namespace pursuit::distributed
