#include "data/text/prompt.h"

#include <string_view>

#include "data/text/corpus.h"

namespace pursuit::data {

std::vector<int64_t> encode_prompt(const std::string& text, const Vocabulary& vocabulary) {
  if (text.empty()) return {};
  const TextFile file{"--prompt", text, 0, nullptr};
  const Tokens tokens = encode({file}, TextSource::Layout::text, vocabulary);
  std::vector<int64_t> ids(tokens.ids.begin(), tokens.ids.end());
  if (text.back() != '\n') ids.pop_back();  // the last line is continued
  return ids;
}

std::vector<std::string> unknown_words(const std::string& text, const Vocabulary& vocabulary) {
  std::vector<std::string> words;
  if (vocabulary.is_bytes()) return words;
  for_each_line({"--prompt", text, 0, nullptr}, false, [&](std::string_view line) {
    for (std::string_view word; !(word = next_word(line)).empty();)
      if (vocabulary.find(word) < 0) words.emplace_back(word);
  });
  return words;
}

}  // namespace pursuit::data
