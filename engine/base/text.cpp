#include "engine/base/text.h"

#include <utf8proc.h>

#include <cstdint>
#include <cstdio>

namespace pursuit {

namespace {

// C0, DEL and C1 controls, the line and paragraph separators, and bidirectional formatting characters.
bool is_control(uint32_t code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x061C || code == 0x200E || code == 0x200F ||
         (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

}  // namespace

size_t utf8_length(std::string_view text) {
  utf8proc_int32_t code = 0;
  const utf8proc_ssize_t length = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                                   utf8proc_ssize_t(text.size()), &code);
  return length > 0 ? size_t(length) : 0;
}

uint32_t code_point(std::string_view character) {
  utf8proc_int32_t code = 0;
  const utf8proc_ssize_t length = utf8proc_iterate(
      reinterpret_cast<const utf8proc_uint8_t*>(character.data()), utf8proc_ssize_t(character.size()), &code);
  return length > 0 ? uint32_t(code) : static_cast<unsigned char>(character[0]);
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
