#pragma once
#include <algorithm>
#include <initializer_list>

#include "cuda/device.h"

// Packs of V adjacent numbers (16 bytes) that one instruction loads or stores.
#ifdef PURSUIT_GPU
namespace pursuit::cuda {

template <class T, int V> struct alignas(V * sizeof(T)) Pack { T v[V]; };
template <class T> constexpr int pack_width = int(16 / sizeof(T));

template <int V, class T> __device__ inline Pack<T, V> load_pack(const T* p) {
  return *reinterpret_cast<const Pack<T, V>*>(p);
}
template <class T, int V> __device__ inline void store_pack(T* p, const Pack<T, V>& pack) {
  if constexpr (sizeof pack == 16 || sizeof pack == 8) {  // or the compiler may split it into four stores
    using Words = std::conditional_t<sizeof pack == 16, uint4, uint2>;
    Words words;
    memcpy(&words, &pack, sizeof words);
    __stwb(reinterpret_cast<Words*>(p), words);
  } else {
    *reinterpret_cast<Pack<T, V>*>(p) = pack;
  }
}

inline bool aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

// Calls f.operator()<V>() with V = pack_width<T> if rows of `cols` numbers starting at all of these addresses
// can be read in packs, else with V = 1.
template <class T, class F>
void with_pack(int64_t cols, std::initializer_list<const void*> addresses, const F& f) {
  constexpr int V = pack_width<T>;
  if (cols % V == 0 && std::all_of(addresses.begin(), addresses.end(), aligned))
    f.template operator()<V>();
  else
    f.template operator()<1>();
}

}  // namespace pursuit::cuda
#endif
