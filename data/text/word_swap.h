#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace pursuit::data {

// The word-swap attack on a language model (Teo & Nguyen 2024, A.4): in every line, a fraction of the words
// is replaced by one meaningless word, before the text is split into tokens.
struct WordSwapOptions {
  double rate = 0.015;          // fraction of a line's words, at least one word per line
  bool keep_stop_words = true;  // NLTK's are never replaced; case-sensitive: "the" stays, "The" may go
  std::string replacement = "AAA";
  uint64_t seed = 0;
};

struct WordSwap {
  std::string text;
  int64_t words = 0, swapped = 0, lines = 0, swapped_lines = 0;  // lines: those with a word
  // The tokens that swapped words became part of, "AAA" or "<AAA>", with counts.
  std::map<std::string, int64_t> tokens;
};

// TextAttack's rules: a word is a run of letters and digits of any script; ' - _ * @ belong to the word they
// follow. Text between words is unchanged. In a line of W words, max(floor(rate W), 1) replaceable words are
// replaced, or all if there are fewer. (TextAttack's sampler sometimes ends one short of that.) The choice
// depends only on the seed and the line number.
WordSwap swap_words(std::string_view text, const WordSwapOptions& options);

}  // namespace pursuit::data
