#pragma once
#include <memory>
#include <span>
#include <string>

#include "data/text/source.h"
#include "data/text/vocabulary.h"

namespace pursuit::data {

// A text as token ids, with an end of line after every line; i32 as in the cache file.
struct Tokens {
  std::span<const int32_t> ids;
  std::span<const int64_t> documents;  // start of each document, ascending from 0
  std::shared_ptr<const void> owner;
};

// The first `count` tokens; 0: all.
Tokens first_tokens(Tokens tokens, int64_t count);

// Throws Error that names the file if a word is not in a vocabulary without <unk>.
Tokens encode(const std::vector<TextFile>& files, TextSource::Layout layout, const Vocabulary& vocabulary);
// The same for files with changed words. Documents begin at the lines where they begin in the `clean` files: a
// heading may have lost its words.
Tokens encode(const std::vector<TextFile>& files, const std::vector<TextFile>& clean,
              TextSource::Layout layout, const Vocabulary& vocabulary);

// The fraction of <unk> among the ids; 0 if there is no <unk>.
double unknown_share(const Tokens& tokens, const Vocabulary& vocabulary);

// Throws Error if the share of unknown words exceeds that of the training text by more than 0.25 of all
// words: the text has another vocabulary, and a score on it would be meaningless.
void check_same_language(const Tokens& tokens, const Vocabulary& vocabulary, double training_share,
                         const std::string& name);

struct CorpusOptions {
  bool bytes = false;  // byte tokens instead of words
  int64_t min_count = 1, vocabulary_limit = 0;
  // Cache folder for the encoded text, which is memory-mapped in later runs; empty: none. A cache is used
  // only if it is intact and was made from these files, byte for byte, with these options.
  std::string cache = {};
  int64_t part_bytes = int64_t(16) << 20;  // of the text that a thread numbers at a time; changes no result
};

struct Corpus {
  TextSource source;
  Vocabulary vocabulary;
  Tokens train, valid, test;  // test may be empty
  double unknown_share = 0;   // of the training text
  bool from_cache = false;
  const Tokens& split(TextSplit s) const;
};
Corpus open_corpus(const std::string& path, const CorpusOptions& options);

}  // namespace pursuit::data
