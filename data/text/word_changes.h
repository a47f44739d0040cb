#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/choice.h"

namespace pursuit::data {

enum class WordChange { swap, noise, deletion };
inline std::vector<Choice<WordChange>> choices_of(WordChange) {
  return {
      {"word-swap", WordChange::swap, "words become one meaningless word"},
      {"character-noise", WordChange::noise, "a character of a word is replaced, removed, added or moved"},
      {"word-deletion", WordChange::deletion, "words are removed"}};
}

// Contaminates the text for a language model: in every line, a fraction of the words is changed before the
// text is split into tokens. The word swap is the published attack (Teo & Nguyen 2024, A.4).
struct WordChangeOptions {
  WordChange change = WordChange::swap;
  double rate = 0.015;              // fraction of a line's words, at least one word per line
  bool keep_stop_words = true;      // NLTK's are never changed; case-sensitive: "the" stays, "The" may go
  std::string replacement = "AAA";  // swap: the meaningless word
  uint64_t seed = 0;
  uint64_t first_line = 0;  // number of the text's first line; texts of one set are numbered through
};

struct ChangedWords {
  std::string text;
  int64_t words = 0, changed = 0;
  uint64_t next_line = 0;  // the first_line of what follows
  // The tokens that changed words became part of, "AAA" or "<AAA>", with counts.
  std::map<std::string, int64_t> tokens;
};

// TextAttack's rules: a word is a run of letters and digits of any script; ' - _ * @ belong to the word they
// follow. Text between words is unchanged. In a line of W words, max(floor(rate W), 1) changeable words are
// changed, or all if there are fewer. (TextAttack's sampler sometimes ends one short of that.) The choice of
// words depends only on the seed and the line number. Noise is one edit of a word, each kind with probability
// 1/4: a letter from a to z replaces a character or is inserted, a character is removed, or two different
// neighbours change places; a word that is too short for it has a character replaced. With a deleted word
// goes the space after it.
ChangedWords change_words(std::string_view text, const WordChangeOptions& options);

}  // namespace pursuit::data
