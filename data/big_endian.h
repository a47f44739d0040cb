#pragma once
#include <cstdint>

namespace pursuit::data {

// Big-endian 32-bit integer, as in PNG and IDX files.
inline uint32_t big_endian32(const uint8_t* p) {
  return uint32_t(p[0]) << 24 | uint32_t(p[1]) << 16 | uint32_t(p[2]) << 8 | p[3];
}

}  // namespace pursuit::data
