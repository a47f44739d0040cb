#pragma once
#include <vector>

#include "engine/core/dtype.h"
#include "engine/cpu/rows.h"

// Rows of any floating type in their compute type: f32 and f64 in place, bf16 through a widened
// copy.
namespace pursuit {

// bf16 as the row kernels expect it.
inline uint16_t* words(bf16* p) { return reinterpret_cast<uint16_t*>(p); }
inline const uint16_t* words(const bf16* p) { return reinterpret_cast<const uint16_t*>(p); }

template <class R> struct Rows {  // [n, d] with row stride ld
  R* p;
  int64_t ld;
  R* at(int64_t i) const { return p + i * ld; }
};

// Reads n rows of d numbers in the compute type; `copy` (n * d elements) is used if they must be widened.
template <class T>
Rows<const compute_t<T>> read_rows(const T* x, int64_t ld, int64_t n, int64_t d, compute_t<T>* copy) {
  if constexpr (std::is_same_v<T, bf16>) {
    for (int64_t i = 0; i < n; ++i) rows<float>().bf16_to_f32(words(x + i * ld), copy + i * d, d);
    return {copy, d};
  } else {
    return {x, ld};
  }
}

// Scratch elements needed to widen n elements of T: none if they are read in place.
template <class T> constexpr int64_t copied(int64_t n) { return std::is_same_v<T, bf16> ? n : 0; }

// The rows that a kernel writes in the compute type: the tensor itself, or `copy`, which store_rows then
// rounds into the tensor.
template <class T> Rows<compute_t<T>> target_rows(T* x, int64_t ld, int64_t d, compute_t<T>* copy) {
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

// One row.
template <class T> const compute_t<T>* widen_row(const T* x, int64_t n, std::vector<compute_t<T>>& buffer) {
  if (int64_t(buffer.size()) < copied<T>(n)) buffer.resize(size_t(n));
  return read_rows(x, n, 1, n, buffer.data()).p;
}

// Calls f on the row in the compute type; f changes it in place.
template <class T, class F> void change_row(T* x, int64_t n, std::vector<compute_t<T>>& buffer, const F& f) {
  widen_row<T>(x, n, buffer);
  const Rows<compute_t<T>> row = target_rows(x, n, n, buffer.data());
  f(row.p);
  store_rows(x, n, 1, n, row);
}

}  // namespace pursuit
