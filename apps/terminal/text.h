#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace pursuit::apps {

// Columns that UTF-8 text takes on a terminal: 0 for combining marks, 2 for wide East Asian characters and
// emoji, 1 for everything else. A byte that is not valid UTF-8 counts as one column.
int display_width(std::string_view text);

// The number of bytes at the end that are an incomplete character.
size_t unfinished_bytes(std::string_view text);

// The longest prefix of whole characters that takes at most `columns` columns.
std::string cut_to_width(std::string_view text, int columns);

// "0:42", "12:05", "3:07:09", "2d 03:07:09"; "?" for negative or non-finite values.
std::string format_duration(double seconds);

// A count in short form: "0.42", "8.1", "812", "12.3k", "4.56M", "1.20G".
std::string format_count(double value);

}  // namespace pursuit::apps
