#include "data/text/utf8.h"

namespace pursuit::data {

size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto is_continuation = [&](size_t i) { return i < text.size() && (byte(i) & 0xC0) == 0x80; };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  // Overlong forms, surrogates and codes above U+10FFFF are not valid: they show in the second byte.
  if (first < 0xC2 || first > 0xF4 || !is_continuation(1)) return 0;
  if (first < 0xE0) return 2;
  if ((first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) > 0x9F) || !is_continuation(2)) return 0;
  if (first < 0xF0) return 3;
  if ((first == 0xF0 && byte(1) < 0x90) || (first == 0xF4 && byte(1) > 0x8F) || !is_continuation(3)) return 0;
  return 4;
}

}  // namespace pursuit::data
