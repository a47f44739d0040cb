#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/text/source.h"

namespace pursuit::data {

// Words and their ids. Word vocabulary: <eos>, which ends every line, is 0; the others follow by descending
// frequency in the training text (ties in order of occurrence), as adaptive softmax needs. Byte vocabulary:
// ids are byte values; a line ends with its newline.
class Vocabulary {
 public:
  static Vocabulary of_bytes();
  // From a text's words in order of their first occurrence, and how often each occurs. Keeps words that occur at
  // least `min_count` times, the most frequent first, up to `limit` entries including <eos> and <unk> (0: no
  // limit). Other words become <unk>, which is added if it is not a word itself. `name` is of the text.
  static Vocabulary of_counts(const std::vector<std::string_view>& words, const std::vector<int64_t>& counts,
                              int64_t min_count, int64_t limit, const std::string& name);
  // From words in order of their ids, one per line. Throws Error that names `name` and the line if a word is
  // empty, contains white space, occurs twice or is not UTF-8, or if the first is not <eos>.
  static Vocabulary of_list(std::string_view list, const std::string& name);
  std::string list() const;

  bool is_bytes() const { return words_.empty(); }
  int64_t size() const { return is_bytes() ? 256 : int64_t(words_.size()); }
  int64_t line_end() const { return is_bytes() ? '\n' : 0; }
  int64_t unknown() const { return unknown_; }  // <unk>, or -1 if there is none
  const std::vector<std::string>& words() const { return words_; }
  int64_t find(std::string_view word) const;  // -1 if unknown
  // Words joined by spaces, with line breaks; bytes as they are. Throws for an invalid id.
  std::string decode(std::span<const int64_t> ids) const;

 private:
  void add(std::string_view word);

  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view s) const { return std::hash<std::string_view>()(s); }
  };
  std::vector<std::string> words_;  // empty: byte vocabulary
  std::unordered_map<std::string, int64_t, Hash, std::equal_to<>> ids_;
  int64_t unknown_ = -1;
};

// Calls f(line) for every line of a file, without its newline. Unless `bytes` is set, throws Error that names
// file and byte if the text is not UTF-8, contains a NUL, or has a word of more than 4096 bytes.
void for_each_line(const TextFile& file, bool bytes, const std::function<void(std::string_view)>& f);

inline bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }  // in ASCII

// Returns the next word of a line, split at ASCII white space, and advances `line`; empty at the end.
std::string_view next_word(std::string_view& line);

}  // namespace pursuit::data
