#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "data/text/vocabulary.h"

namespace pursuit::data {

// Encodes a text as words, with an end of line per newline. Unknown words become <unk>; throws Error if the
// vocabulary has none.
std::vector<int64_t> encode_prompt(const std::string& text, const Vocabulary& vocabulary);

// The words of a text that the vocabulary lacks; empty for a byte vocabulary.
std::vector<std::string> unknown_words(const std::string& text, const Vocabulary& vocabulary);

}  // namespace pursuit::data
