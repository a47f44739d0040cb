#include "data/text/word_changes.h"

#include <locale.h>
#include <wctype.h>

#include <algorithm>
#include <vector>

#include "data/text/stop_words.h"
#include "data/text/vocabulary.h"
#include "engine/base/error.h"
#include "engine/base/random.h"
#include "engine/base/streams.h"
#include "engine/base/text.h"

namespace pursuit::data {
namespace {

struct Word {
  size_t begin, size;
};

// Matches Python's \w and the characters in TextAttack's list of homoglyphs.
bool is_letter(std::string_view character) {
  static const locale_t unicode = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  if (!unicode) fail("word changes", "the system lacks the locale C.UTF-8");
  return character == "`" || character == "\u00d7" || iswalnum_l(wint_t(code_point(character)), unicode);
}

std::vector<Word> words_of(std::string_view line) {
  std::vector<Word> words;
  bool inside = false;
  for (size_t i = 0, size; i < line.size(); i += size) {
    // An invalid byte counts as one character.
    size = std::max<size_t>(1, utf8_length(line.substr(i)));
    const std::string_view c = line.substr(i, size);
    const bool letter = is_letter(c),
               joins = inside && std::string_view("'-_*@").find(c) != std::string_view::npos;
    if (letter && !inside) words.push_back({i, 0});
    inside = letter || joins;
    if (inside) words.back().size += size;
  }
  return words;
}

// The word after one edit; it always differs.
std::string with_noise(std::string_view word, Random& random) {
  std::vector<std::string> characters;
  for (size_t i = 0, size; i < word.size(); i += size) {
    size = std::max<size_t>(1, utf8_length(word.substr(i)));
    characters.emplace_back(word.substr(i, size));
  }
  const auto letter = [&] { return std::string(1, char('a' + random.below(26))); };
  const auto place = [&](size_t places) { return characters.begin() + random.below(int64_t(places)); };
  enum { replace, remove, insert, move };
  int64_t edit = random.below(4);
  std::vector<size_t> different;  // from its neighbour on the right
  for (size_t i = 0; i + 1 < characters.size(); ++i)
    if (characters[i] != characters[i + 1]) different.push_back(i);
  if ((edit == move && different.empty()) || (edit == remove && characters.size() == 1)) edit = replace;
  if (edit == remove) {
    characters.erase(place(characters.size()));
  } else if (edit == insert) {
    const auto at = place(characters.size() + 1);
    characters.insert(at, letter());
  } else if (edit == move) {
    const size_t i = different[size_t(random.below(int64_t(different.size())))];
    std::swap(characters[i], characters[i + 1]);
  } else {
    const auto at = place(characters.size());
    const std::string before = *at;
    while (*at == before) *at = letter();
  }
  std::string out;
  for (const std::string& c : characters) out += c;
  return out;
}

// The token around `at`, delimited by white space.
std::string token_around(std::string_view line, size_t at) {
  size_t begin = at, end = at;
  while (begin > 0 && !is_space(line[begin - 1])) --begin;
  while (end < line.size() && !is_space(line[end])) ++end;
  return std::string(line.substr(begin, end - begin));
}

}  // namespace

ChangedWords change_words(std::string_view text, const WordChangeOptions& options) {
  if (!(options.rate > 0 && options.rate <= 1))
    fail("word changes", "the rate is " + std::to_string(options.rate) + ", need more than 0 and at most 1");
  ChangedWords out;
  uint64_t number = options.first_line;
  for_each_line({"", text, 0, nullptr}, true, [&](std::string_view line) {
    Random random(options.seed, streams::word_swap.at(number++));
    const std::vector<Word> words = words_of(line);
    std::vector<Word> chosen;
    for (const Word& w : words)
      if (!options.keep_stop_words || !is_stop_word(line.substr(w.begin, w.size))) chosen.push_back(w);
    const size_t count =
        std::min(chosen.size(), std::max(size_t(options.rate * double(words.size())), size_t(1)));
    for (size_t i = 0; i < count; ++i)
      std::swap(chosen[i], chosen[i + size_t(random.below(int64_t(chosen.size() - i)))]);
    chosen.resize(count);
    std::sort(chosen.begin(), chosen.end(), [](const Word& a, const Word& b) { return a.begin < b.begin; });
    std::string changed;
    std::vector<size_t> places;
    size_t done = 0;
    for (const Word& w : chosen) {
      changed.append(line.substr(done, w.begin - done));
      done = w.begin + w.size;
      if (options.change == WordChange::deletion) {
        const bool between_spaces = changed.empty() || is_space(changed.back());
        if (between_spaces && done < line.size() && is_space(line[done])) ++done;
        continue;
      }
      places.push_back(changed.size());
      changed.append(options.change == WordChange::swap ? options.replacement
                                                        : with_noise(line.substr(w.begin, w.size), random));
    }
    changed.append(line.substr(done));
    for (const size_t at : places) ++out.tokens[token_around(changed, at)];
    out.text.append(changed) += '\n';
    out.words += int64_t(words.size());
    out.changed += int64_t(count);
  });
  out.next_line = number;
  return out;
}

}  // namespace pursuit::data
