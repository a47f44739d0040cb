#include "tests/fuzz/png.h"

#include <zlib.h>

#include "data/big_endian.h"

namespace pursuit::fuzz {

namespace {

constexpr std::string_view signature = "\x89PNG\r\n\x1a\n";

std::string big_endian(size_t value) {
  return {char(value >> 24), char(value >> 16), char(value >> 8), char(value)};
}

}  // namespace

Parts split_png(std::string_view input) {
  if (!input.starts_with(signature)) return {};
  input.remove_prefix(signature.size());
  Parts parts;
  while (input.size() >= 12) {
    const size_t length = data::big_endian32(reinterpret_cast<const uint8_t*>(input.data()));
    if (length > input.size() - 12) break;
    parts.emplace_back(input.substr(4, length + 4));
    input.remove_prefix(length + 12);
  }
  return parts;
}

std::string join_png(const Parts& parts) {
  std::string output(signature);
  for (const std::string& part : parts) {
    if (part.size() < 4) continue;
    output += big_endian(part.size() - 4) + part +
              big_endian(crc32(0, reinterpret_cast<const Bytef*>(part.data()), uInt(part.size())));
  }
  return output;
}

}  // namespace pursuit::fuzz
