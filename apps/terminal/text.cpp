#include "apps/terminal/text.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <cmath>

#include "engine/base/text.h"

namespace pursuit::apps {
namespace {

struct Character {
  size_t bytes;
  int width;
};

// The first character; an invalid byte counts as one.
Character next_character(std::string_view text) {
  const size_t length = utf8_length(text);
  if (length == 0) return {1, 1};
  return {length, utf8proc_charwidth(utf8proc_int32_t(code_point(text.substr(0, length))))};
}

}  // namespace

int display_width(std::string_view text) {
  int width = 0;
  while (!text.empty()) {
    const Character character = next_character(text);
    width += character.width;
    text.remove_prefix(character.bytes);
  }
  return width;
}

size_t unfinished_bytes(std::string_view text) {
  constexpr size_t longest = 4;
  for (size_t n = 1; n <= std::min(longest - 1, text.size()); ++n) {
    const auto byte = static_cast<unsigned char>(text[text.size() - n]);
    if (byte < 0x80) return 0;
    if (byte < 0xC0) continue;
    const size_t length = byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : byte < 0xF5 ? 4 : 1;
    return n < length ? n : 0;
  }
  return 0;
}

std::string cut_to_width(std::string_view text, int columns) {
  size_t end = 0;
  while (end < text.size()) {
    const Character character = next_character(text.substr(end));
    columns -= character.width;
    if (columns < 0) break;
    end += character.bytes;
  }
  return std::string(text.substr(0, end));
}

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e12) return "?";
  const auto total = static_cast<int64_t>(std::llround(seconds));
  const int64_t days = total / 86400, hours = total / 3600 % 24, minutes = total / 60 % 60, rest = total % 60;
  if (days > 0) return fmt::format("{}d {:02}:{:02}:{:02}", days, hours, minutes, rest);
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, rest);
  return fmt::format("{}:{:02}", minutes, rest);
}

std::string format_count(double value) {
  const double size = std::fabs(value);
  if (!std::isfinite(value)) return fmt::format("{}", value);
  if (size >= 1e9) return fmt::format("{:.2f}G", value / 1e9);
  if (size >= 1e6) return fmt::format("{:.2f}M", value / 1e6);
  if (size >= 1e4) return fmt::format("{:.1f}k", value / 1e3);
  if (size >= 100 || value == 0) return fmt::format("{:.0f}", value);
  return fmt::format("{:.{}f}", value, size >= 1 ? 1 : 2);
}

}  // namespace pursuit::apps
