#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace pursuit {

// Bytes of the UTF-8 character that `text` (not empty) starts with, 1 to 4; 0 if it does not start with a
// valid one.
size_t utf8_length(std::string_view text);
// The code point of one character; of a single byte that is none, the byte.
uint32_t code_point(std::string_view character);

bool is_utf8(std::string_view text);

// What follows a byte order mark, which some editors write before UTF-8 text; without one, the text.
std::string_view without_byte_order_mark(std::string_view text);

// Text as it may be shown on a terminal, whatever file it comes from: control characters, line breaks and
// marks that turn the direction of writing become \n, \t, \u001b ..., bytes that are not UTF-8 \xff. With
// `lines`, line breaks and tabs stay. In JSON the result means the same as before.
std::string printable(std::string_view text, bool lines = false);

}  // namespace pursuit
