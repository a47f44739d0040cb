#pragma once
#include <cstddef>
#include <string_view>

namespace pursuit::data {

// Bytes of the UTF-8 character that `text` (not empty) starts with, 1 to 4; 0 if it does not start with a
// valid one.
size_t utf8_length(std::string_view text);

}  // namespace pursuit::data
