#pragma once
#include <fmt/format.h>

#include <string>

#include "engine/distributed/secret.h"

namespace pursuit::segment::interactive {

// 128 random bits of libsodium, as 32 hexadecimal digits.
inline std::string random_name() {
  std::string name;
  for (const char byte : distributed::random_bytes(16)) name += fmt::format("{:02x}", uint8_t(byte));
  return name;
}

}  // namespace pursuit::segment::interactive
