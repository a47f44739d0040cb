#pragma once
#include <vector>

#include "engine/core/parallel.h"
#include "engine/cpu/attend.h"
#include "engine/cpu/wide_rows.h"
#include "engine/operator/operator.h"

// Packed projections [B, N, P, H, D] seen head by head, in the type the CPU computes in: f32 and f64 in
// place, bf16 through a widened copy of the head.
namespace pursuit {

struct PackedShape {
  int64_t batch, n, parts, heads, d;

  explicit PackedShape(const Tensor& x)
      : batch(x.size(0)), n(x.size(1)), parts(x.size(2)), heads(x.size(3)), d(x.size(4)) {}
  int64_t width() const { return heads * d; }
};

// Rows of a tensor read in the compute type; `copy` (n * d elements) is used where they must be widened.
template <class T>
Rows<const compute_t<T>> read_rows(const T* x, int64_t ld, int64_t n, int64_t d, compute_t<T>* copy) {
  if constexpr (std::is_same_v<T, bf16>) {
    for (int64_t i = 0; i < n; ++i) rows<float>().bf16_to_f32(words(x + i * ld), copy + i * d, d);
    return {copy, d};
  } else {
    return {x, ld};
  }
}

// Elements of scratch memory that n elements of T take to be widened: none where they are read in place.
template <class T>
constexpr int64_t copied(int64_t n) {
  return std::is_same_v<T, bf16> ? n : 0;
}

// Where a kernel writes rows in the compute type: the tensor itself, or `copy`, which store_rows then rounds
// into it.
template <class T>
Rows<compute_t<T>> target_rows(T* x, int64_t ld, int64_t d, compute_t<T>* copy) {
  if constexpr (std::is_same_v<T, bf16>)
    return {copy, d};
  else
    return {x, ld};
}
template <class T>
void store_rows(T* x, int64_t ld, int64_t n, int64_t d, [[maybe_unused]] Rows<compute_t<T>> from) {
  if constexpr (std::is_same_v<T, bf16>)
    for (int64_t i = 0; i < n; ++i) rows<float>().f32_to_bf16(from.at(i), words(x + i * ld), d);
}

// Calls body(batch, head) for every head, the heads split over the threads.
template <class F>
void for_each_head(const PackedShape& s, const F& body) {
  parallel_for(s.batch * s.heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(i / s.heads, i % s.heads);
  });
}

}  // namespace pursuit
