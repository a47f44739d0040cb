#include "data/text/vocabulary.h"

#include <algorithm>
#include <optional>

#include "engine/base/error.h"
#include "engine/base/text.h"

namespace pursuit::data {
namespace {

constexpr std::string_view end_of_line = "<eos>", unknown_word = "<unk>";
constexpr size_t longest_word = 4096;

// The position of the first invalid byte of a line, and the reason.
struct Flaw {
  size_t at;
  const char* why;
};
std::optional<Flaw> find_flaw(std::string_view line) {
  size_t word = 0;  // start of the current word
  for (size_t i = 0; i < line.size();) {
    if (const unsigned char c = static_cast<unsigned char>(line[i]);
        c > ' ' && c < 0x80 && i - word < longest_word) {
      ++i;
      continue;
    }
    const size_t length = utf8_length(line.substr(i));
    if (length == 0) return Flaw{i, "is not valid UTF-8; convert it, or read the data as bytes"};
    if (line[i] == '\0') return Flaw{i, "is a NUL, which text does not hold; is the file damaged?"};
    if (is_space(line[i])) word = i + 1;
    i += length;
    if (i - word > longest_word) return Flaw{word, "begins a word of more than 4096 bytes; is this text?"};
  }
  return {};
}

struct Count {
  std::string_view word;
  int64_t count;
};

}  // namespace

std::string_view next_word(std::string_view& line) {
  size_t begin = 0;
  while (begin < line.size() && is_space(line[begin])) ++begin;
  size_t end = begin;
  while (end < line.size() && !is_space(line[end])) ++end;
  const std::string_view word = line.substr(begin, end - begin);
  line.remove_prefix(end);
  return word;
}

void for_each_line(const TextFile& file, bool bytes, const std::function<void(std::string_view)>& f) {
  for (size_t begin = 0; begin < file.text.size();) {
    const size_t end = std::min(file.text.find('\n', begin), file.text.size());
    const std::string_view line = file.text.substr(begin, end - begin);
    if (!bytes)
      if (const auto flaw = find_flaw(line))
        fail("text", file.name + ": byte " + std::to_string(file.offset + int64_t(begin + flaw->at)) + " " +
                         flaw->why);
    f(line);
    begin = end + 1;
  }
}

Vocabulary Vocabulary::of_bytes() { return {}; }

Vocabulary Vocabulary::of_counts(const std::vector<std::string_view>& words,
                                 const std::vector<int64_t>& counts, int64_t min_count, int64_t limit,
                                 const std::string& name) {
  if (min_count < 1) fail("vocabulary", "min_count is " + std::to_string(min_count) + ", need at least 1");
  if (limit < 0 || (limit > 0 && limit < 3))
    fail("vocabulary", "the limit is " + std::to_string(limit) + ", need 0 (all words) or at least 3");
  std::vector<Count> sorted;
  for (size_t i = 0; i < words.size(); ++i)
    if (words[i] != end_of_line) sorted.push_back({words[i], counts[i]});
  if (sorted.empty()) fail("vocabulary", (name.empty() ? "the training text" : name) + " holds no word");
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Count& a, const Count& b) { return a.count > b.count; });
  const auto rare =
      std::find_if(sorted.begin(), sorted.end(), [&](const Count& w) { return w.count < min_count; });
  int64_t kept = rare - sorted.begin();
  if (limit > 0) kept = std::min(kept, limit - 1);
  const auto is_unknown = [](const Count& w) { return w.word == unknown_word; };
  const bool leaves_out = kept < int64_t(sorted.size());
  const bool add_unknown =
      leaves_out && std::find_if(sorted.begin(), sorted.begin() + kept, is_unknown) == sorted.begin() + kept;
  if (add_unknown && limit > 0) kept = std::min(kept, limit - 2);

  Vocabulary v;
  v.add(end_of_line);
  // <unk> replaces all other words, so it is frequent and gets a low id.
  if (add_unknown) v.add(unknown_word);
  for (int64_t i = 0; i < kept; ++i) v.add(sorted[size_t(i)].word);
  return v;
}

void Vocabulary::add(std::string_view word) {
  const int64_t id = int64_t(words_.size());
  if (word == unknown_word) unknown_ = id;
  words_.emplace_back(word);
  ids_.emplace(word, id);
}

Vocabulary Vocabulary::of_list(std::string_view list, const std::string& name) {
  Vocabulary v;
  for_each_line({name, list, 0, nullptr}, false, [&](std::string_view line) {
    std::string_view rest = line;
    const std::string_view word = next_word(rest);
    const auto reject = [&](const std::string& why) {
      fail("vocabulary", name + ": line " + std::to_string(v.words_.size() + 1) + " " + why);
    };
    if (word.empty() || word.size() != line.size()) reject("is not a single word");
    if (v.words_.empty() && word != end_of_line) reject("is '" + std::string(word) + "', need <eos>");
    if (v.ids_.contains(word)) reject("repeats the word '" + std::string(word) + "'");
    v.add(word);
  });
  if (v.size() < 2 || v.is_bytes()) fail("vocabulary", name + " holds no words");
  return v;
}

std::string Vocabulary::list() const {
  std::string text;
  for (const std::string& word : words_) text += word + "\n";
  return text;
}

int64_t Vocabulary::find(std::string_view word) const {
  const auto it = ids_.find(word);
  return it == ids_.end() ? -1 : it->second;
}

std::string Vocabulary::decode(std::span<const int64_t> ids) const {
  std::string text;
  for (const int64_t id : ids) {
    if (id < 0 || id >= size())
      fail("vocabulary",
           "there is no word " + std::to_string(id) + ", need 0 to " + std::to_string(size() - 1));
    if (is_bytes()) {
      text += char(id);
    } else if (id == line_end()) {
      text += '\n';
    } else {
      if (!text.empty() && text.back() != '\n') text += ' ';
      text += words_[size_t(id)];
    }
  }
  return text;
}

}  // namespace pursuit::data
