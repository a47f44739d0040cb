#include "apps/terminal/text.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <utility>

#include "engine/base/text.h"

namespace pursuit::apps {
namespace {

struct Character {
  char32_t code;
  size_t bytes;
};

// Reads the character at the front; a byte that does not start a valid sequence is a character of its own.
Character next_character(std::string_view text) {
  const size_t length = utf8_length(text);
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (length == 0) return {0xFFFD, 1};
  if (length == 1) return {byte(0), 1};
  char32_t code = byte(0) & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) code = code << 6 | (byte(i) & 0x3Fu);
  return {code, length};
}

using Range = std::pair<char32_t, char32_t>;
constexpr std::array<Range, 8> zero_width = {{{0x0300, 0x036F},
                                              {0x0483, 0x0489},
                                              {0x0591, 0x05BD},
                                              {0x064B, 0x065F},
                                              {0x1AB0, 0x1AFF},
                                              {0x200B, 0x200F},
                                              {0x20D0, 0x20FF},
                                              {0xFE00, 0xFE0F}}};
constexpr std::array<Range, 8> double_width = {{{0x1100, 0x115F},
                                                {0x2E80, 0xA4CF},
                                                {0xAC00, 0xD7A3},
                                                {0xF900, 0xFAFF},
                                                {0xFE30, 0xFE6F},
                                                {0xFF00, 0xFF60},
                                                {0x1F300, 0x1FAFF},
                                                {0x20000, 0x3FFFD}}};

int character_width(char32_t code) {
  for (const auto& [low, high] : zero_width)
    if (code >= low && code <= high) return 0;
  for (const auto& [low, high] : double_width)
    if (code >= low && code <= high) return 2;
  return 1;
}

}  // namespace

int display_width(std::string_view text) {
  int width = 0;
  while (!text.empty()) {
    const Character character = next_character(text);
    width += character_width(character.code);
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
    columns -= character_width(character.code);
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
