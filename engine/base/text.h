#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace pursuit {

// Length in bytes (1 to 4) of the first UTF-8 character of `text`; 0 if it is not valid. `text` must not
// be empty.
size_t utf8_length(std::string_view text);
// The code point of one character; for a byte that is not valid UTF-8, the byte itself.
uint32_t code_point(std::string_view character);

bool is_utf8(std::string_view text);

// `text` without its UTF-8 byte order mark, if it has one.
std::string_view without_byte_order_mark(std::string_view text);

// Makes text from any file safe to print on a terminal: control characters, line breaks and bidirectional
// marks become \n, \t, \u001b ..., and bytes that are not UTF-8 become \xff. With `lines`, line breaks and
// tabs are kept. Inside JSON strings the result has the same meaning.
std::string printable(std::string_view text, bool lines = false);

}  // namespace pursuit
