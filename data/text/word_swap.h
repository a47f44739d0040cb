#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace pursuit::data {

// The word-swap attack on a language model (Teo & Nguyen 2024, A.4): in every line a share of the words is
// replaced by one meaningless word, before the text is split into tokens.
struct WordSwapOptions {
  double rate = 0.015;          // of a line's words, at least one word a line
  bool keep_stop_words = true;  // NLTK's are never replaced; compared with case: "the" stays, "The" may go
  std::string replacement = "AAA";
  uint64_t seed = 0;
};

struct WordSwap {
  std::string text;
  int64_t words = 0, swapped = 0, lines = 0, swapped_lines = 0;  // lines: those with a word
  // What each swapped word has become a part of between white space, "AAA" or "<AAA>", and how often.
  std::map<std::string, int64_t> tokens;
};

// TextAttack's rules: a word is a run of letters and digits of any script; ' - _ * @ belong to the word they
// follow. What stands between words stays as it is. A line of W words loses max(floor(rate W), 1) of those
// that may be replaced, as far as there are so many. (TextAttack's sampler now and then ends one short of
// that.) The choice is a function of the seed and the line's number.
WordSwap swap_words(std::string_view text, const WordSwapOptions& options);

}  // namespace pursuit::data
