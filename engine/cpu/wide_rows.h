#pragma once
#include <vector>

#include "engine/core/dtype.h"
#include "engine/cpu/rows.h"

// Rows of any floating type seen in the type they are computed in: f32 and f64 in place, bf16 widened to
// floats in a buffer.
namespace pursuit {

// bf16 as the row kernels take it.
inline uint16_t* words(bf16* p) { return reinterpret_cast<uint16_t*>(p); }
inline const uint16_t* words(const bf16* p) { return reinterpret_cast<const uint16_t*>(p); }

template <class T>
const compute_t<T>* widen_row(const T* x, int64_t n, [[maybe_unused]] std::vector<compute_t<T>>& buffer) {
  if constexpr (std::is_same_v<T, bf16>) {
    if (int64_t(buffer.size()) < n) buffer.resize(size_t(n));
    rows<float>().bf16_to_f32(words(x), buffer.data(), n);
    return buffer.data();
  } else {
    return x;
  }
}

// Calls f on the row, which it changes in place.
template <class T, class F>
void change_row(T* x, int64_t n, std::vector<compute_t<T>>& buffer, const F& f) {
  if constexpr (std::is_same_v<T, bf16>) {
    widen_row<T>(x, n, buffer);
    f(buffer.data());
    rows<float>().f32_to_bf16(buffer.data(), words(x), n);
  } else {
    f(x);
  }
}

}  // namespace pursuit
