#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "engine/base/choice.h"
#include "engine/base/error.h"
#include "engine/base/hd.h"

namespace pursuit {

// f64 exists on the CPU only, for gradient checks and decompositions.
enum class DType : uint8_t { f64, f32, bf16, i64, i32, u8, i8 };

// The upper half of an IEEE f32: same range, 8 bits of mantissa.
struct bf16 {
  uint16_t bits;
};

// The type in which values of storage type T are computed.
template <class T> using compute_t = std::conditional_t<std::is_same_v<T, bf16>, float, T>;

// The same for a dtype known at run time.
inline DType compute_type(DType d) { return d == DType::bf16 ? DType::f32 : d; }
// Whether a tensor of dtype `wide` may be combined with one of dtype `d`: equal, or f32 with bf16.
inline bool fits_beside(DType wide, DType d) { return wide == d || wide == compute_type(d); }

template <class T> HD inline compute_t<T> upcast(T v) { return v; }
template <> HD inline float upcast(bf16 v) {
  const uint32_t u = uint32_t(v.bits) << 16;
  float f;
  memcpy(&f, &u, 4);
  return f;
}

template <class T> HD inline T downcast(compute_t<T> v) { return v; }
// Round to nearest even; a NaN stays a NaN (rounding could carry its mantissa into infinity).
template <> HD inline bf16 downcast<bf16>(float f) {
#ifdef __CUDA_ARCH__
  uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(f));
  return {bits};
#else
  uint32_t u;
  memcpy(&u, &f, 4);
  if ((u & 0x7fffffffu) > 0x7f800000u) return {uint16_t((u >> 16) | 0x40)};
  u += 0x7fff + ((u >> 16) & 1);
  return {uint16_t(u >> 16)};
#endif
}

// Floats to integers truncate; to bf16 through f32.
template <class To, class From> HD To convert(From v) {
  if constexpr (std::is_same_v<To, bf16>)
    return downcast<bf16>(float(upcast(v)));
  else
    return To(upcast(v));
}

template <class T> struct Type { using type = T; };

template <class T> constexpr DType dtype_of() {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, double>) return DType::f64;
  if constexpr (std::is_same_v<U, float>) return DType::f32;
  if constexpr (std::is_same_v<U, bf16>) return DType::bf16;
  if constexpr (std::is_same_v<U, int64_t>) return DType::i64;
  if constexpr (std::is_same_v<U, int32_t>) return DType::i32;
  if constexpr (std::is_same_v<U, uint8_t>) return DType::u8;
  if constexpr (std::is_same_v<U, int8_t>) return DType::i8;
}

inline int64_t size_of(DType d) {
  switch (d) {
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::bf16:
      return 2;
    case DType::u8:
    case DType::i8:
      return 1;
  }
  return 0;
}

inline const char* name_of(DType d) {
  switch (d) {
    case DType::f64:
      return "f64";
    case DType::f32:
      return "f32";
    case DType::bf16:
      return "bf16";
    case DType::i64:
      return "i64";
    case DType::i32:
      return "i32";
    case DType::u8:
      return "u8";
    case DType::i8:
      return "i8";
  }
  return "?";
}

inline DType dtype_from_name(const std::string& name) {
  for (DType d : {DType::f64, DType::f32, DType::bf16, DType::i64, DType::i32, DType::u8, DType::i8})
    if (name == name_of(d)) return d;
  fail("dtype", "unknown type '" + name + "'; known are f64, f32, bf16, i64, i32, u8, i8");
}

// The dtypes that models compute in.
inline std::vector<Choice<DType>> choices_of(DType) { return {{"f32", DType::f32}, {"bf16", DType::bf16}}; }

inline bool is_floating(DType d) { return d == DType::f64 || d == DType::f32 || d == DType::bf16; }

// Calls f(Type<T>{}) for any dtype.
template <class F> void with_type(DType d, const F& f) {
  switch (d) {
    case DType::f64:
      return f(Type<double>{});
    case DType::f32:
      return f(Type<float>{});
    case DType::bf16:
      return f(Type<bf16>{});
    case DType::i64:
      return f(Type<int64_t>{});
    case DType::i32:
      return f(Type<int32_t>{});
    case DType::u8:
      return f(Type<uint8_t>{});
    case DType::i8:
      return f(Type<int8_t>{});
  }
}

}  // namespace pursuit
