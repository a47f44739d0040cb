#pragma once
#include <string_view>

namespace pursuit::data {

// Whether a word is one of NLTK's 179 English stop words (the list of 2024). Case-sensitive: all are lower
// case.
bool is_stop_word(std::string_view word);

}  // namespace pursuit::data
