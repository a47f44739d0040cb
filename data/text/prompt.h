#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "data/text/vocabulary.h"

namespace pursuit::data {

// A text as numbers: words, and an end of line for every newline. Unknown words become <unk>; throws Error if
// there is none.
std::vector<int64_t> encode_prompt(const std::string& text, const Vocabulary& vocabulary);

// The words of a text that a vocabulary lacks; of bytes, none.
std::vector<std::string> unknown_words(const std::string& text, const Vocabulary& vocabulary);

}  // namespace pursuit::data
