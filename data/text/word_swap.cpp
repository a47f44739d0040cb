#include "data/text/word_swap.h"

#include <algorithm>
#include <set>
#include <vector>

#include "data/text/vocabulary.h"
#include "engine/error.h"
#include "engine/random.h"
#include "engine/streams.h"

namespace pursuit::data {
namespace {

constexpr std::string_view stop_word_list =
    "a about above after again against all am an and any are as at be because been before being below "
    "between "
    "both but by can could did do does doing don down during each few for from further had has have having "
    "he "
    "her here hers herself him himself his how i if in into is it it's its itself just me more most my "
    "myself "
    "no nor not now of off on once only or other our ours ourselves out over own same she she's should so "
    "some "
    "such than that the their theirs them themselves then there these they this those through to too under "
    "until up very was we were what when where which while who whom why will with would you your yours "
    "yourself yourselves s t d ll m o re ve y";

const std::set<std::string_view>& stop_words() {
  static const std::set<std::string_view> words = [] {
    std::set<std::string_view> out;
    std::string_view rest = stop_word_list;
    for (std::string_view word; !(word = next_word(rest)).empty();) out.insert(word);
    return out;
  }();
  return words;
}

struct Word {
  size_t begin, size;
};

std::vector<Word> words_of(std::string_view line) {
  std::vector<Word> words;
  bool inside = false;
  for (size_t i = 0; i < line.size(); ++i) {
    const unsigned char c = static_cast<unsigned char>(line[i]);
    const bool letter =
        c >= 0x80 || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool joins = inside && std::string_view("'-_*@").find(char(c)) != std::string_view::npos;
    if (letter && !inside) words.push_back({i, 0});
    inside = letter || joins;
    if (inside) ++words.back().size;
  }
  return words;
}

bool is_stop_word(std::string_view word) {
  std::string lower(word);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
  return stop_words().contains(lower);
}

}  // namespace

WordSwap swap_words(std::string_view text, const WordSwapOptions& options) {
  if (!(options.rate > 0 && options.rate <= 1))
    fail("word swap", "the rate is " + std::to_string(options.rate) + ", need more than 0 and at most 1");
  WordSwap out;
  uint64_t number = 0;
  for_each_line({"", text, 0, 0, nullptr}, true, [&](std::string_view line) {
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
    size_t done = 0;
    for (const Word& w : chosen) {
      out.text.append(line.substr(done, w.begin - done)).append(options.replacement);
      done = w.begin + w.size;
    }
    out.text.append(line.substr(done)) += '\n';
    out.words += int64_t(words.size());
    out.swapped += int64_t(count);
    out.lines += !words.empty();
    out.swapped_lines += count > 0;
  });
  return out;
}

}  // namespace pursuit::data
