#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

namespace pursuit {

// Converts IEEE half precision (1 sign, 5 exponent, 10 mantissa bits) to f32, exactly. Files may contain
// halves; nothing computes in them.
inline float half_to_float(uint16_t h) {
  const uint32_t sign = uint32_t(h & 0x8000) << 16, exponent = h >> 10 & 31, mantissa = h & 1023;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | mantissa << 13);
  if (exponent == 0) return std::copysign(std::ldexp(float(mantissa), -24), sign ? -1.0f : 1.0f);
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

}  // namespace pursuit
