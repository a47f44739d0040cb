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

// Words and their numbers. Of words: <eos>, which ends every line, is 0; the others follow by falling
// frequency in the training text, of equals the one met first, as adaptive softmax needs them. Of bytes: the
// byte's value; a line ends with its newline.
class Vocabulary {
 public:
  static Vocabulary of_bytes();
  // The words of these files, split at white space. Keeps those that occur at least `min_count` times, and of
  // them the most frequent, such that the vocabulary, <eos> and <unk> included, holds at most `limit` (0:
  // all). What is left out becomes <unk>, which joins the vocabulary if it is not in it.
  static Vocabulary of_words(const std::vector<TextFile>& files, int64_t min_count = 1, int64_t limit = 0);
  // From words in the order of their numbers, one a line. Throws Error that names `name` and the line if a
  // word is empty, holds white space, is there twice or is not UTF-8, or if the first is not <eos>.
  static Vocabulary of_list(std::string_view list, const std::string& name);
  std::string list() const;

  bool is_bytes() const { return words_.empty(); }
  int64_t size() const { return is_bytes() ? 256 : int64_t(words_.size()); }
  int64_t line_end() const { return is_bytes() ? '\n' : 0; }
  int64_t unknown() const { return unknown_; }  // <unk>, or -1 if there is none
  const std::vector<std::string>& words() const { return words_; }
  int64_t find(std::string_view word) const;  // -1 if it is not there
  // Words with spaces between and lines as lines; bytes as they are. Throws on a number that does not exist.
  std::string decode(std::span<const int64_t> ids) const;

 private:
  void add(std::string_view word);

  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view s) const { return std::hash<std::string_view>()(s); }
  };
  std::vector<std::string> words_;  // empty: of bytes
  std::unordered_map<std::string, int64_t, Hash, std::equal_to<>> ids_;
  int64_t unknown_ = -1;
};

// Calls f(line) for every line of a file, without its newline. Unless it is taken as bytes, throws Error that
// names file and byte where the text is not UTF-8, holds a NUL, or a word of more than 4096 bytes.
void for_each_line(const TextFile& file, bool bytes, const std::function<void(std::string_view)>& f);

// The next word of a line, split at ASCII white space, and `line` moved behind it; empty at the line's end.
std::string_view next_word(std::string_view& line);

}  // namespace pursuit::data
