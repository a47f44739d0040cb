#include "engine/base/text.h"

#include <cstdint>
#include <cstdio>

namespace pursuit {

namespace {

// C0, DEL and C1, the line and paragraph separators, and the marks of bidirectional text.
bool is_control(uint32_t code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x061C || code == 0x200E || code == 0x200F ||
         (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

}  // namespace

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

uint32_t code_point(std::string_view character) {
  const auto byte = [&](size_t i) { return uint32_t(static_cast<unsigned char>(character[i])); };
  if (character.size() == 1) return byte(0);
  uint32_t code = byte(0) & (0x7Fu >> character.size());
  for (size_t i = 1; i < character.size(); ++i) code = code << 6 | (byte(i) & 0x3Fu);
  return code;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view mark = "\xEF\xBB\xBF";
  if (text.starts_with(mark)) text.remove_prefix(mark.size());
  return text;
}

std::string printable(std::string_view text, bool lines) {
  std::string out;
  char escape[16];
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    const std::string_view character = text.substr(0, length ? length : 1);
    text.remove_prefix(character.size());
    const uint32_t code = code_point(character);
    if (length == 0) {
      std::snprintf(escape, sizeof escape, "\\x%02x", unsigned(code));
      out += escape;
    } else if (code == '\n' || code == '\t') {
      out += lines ? character : code == '\n' ? "\\n" : "\\t";
    } else if (is_control(code)) {
      std::snprintf(escape, sizeof escape, "\\u%04x", unsigned(code));
      out += escape;
    } else {
      out += character;
    }
  }
  return out;
}

}  // namespace pursuit
