#pragma once
#include <memory>
#include <span>
#include <string>

#include "data/text/source.h"
#include "data/text/vocabulary.h"

namespace pursuit::data {

// A text as numbers, with an end of line after every line; i32 as the cache file has them.
struct Tokens {
  std::span<const int32_t> ids;
  std::span<const int64_t> documents;  // where each one begins, ascending from 0
  std::shared_ptr<const void> owner;
};

// The first `count` of them; 0: all.
Tokens first_tokens(Tokens tokens, int64_t count);

// Throws Error that names the file where its words are unknown: one that is not in a vocabulary without
// <unk>.
Tokens encode(const std::vector<TextFile>& files, TextSource::Layout layout, const Vocabulary& vocabulary);

// The share of <unk> among the ids; 0 if there is no <unk>.
double unknown_share(const Tokens& tokens, const Vocabulary& vocabulary);

// Throws Error if far more of a text is unknown (by 0.25 of all its words) than of the training text: it is
// of another vocabulary, and no score on it would mean anything.
void check_same_language(const Tokens& tokens, const Vocabulary& vocabulary, double training_share,
                         const std::string& name);

struct CorpusOptions {
  bool bytes = false;  // numbers of bytes, not of words
  int64_t min_count = 1, vocabulary_limit = 0;
  // A folder for the encoded text, so that it is mapped into memory the next time; empty: none. What is
  // found there is used only if it was made of these files (same sizes and same contents; contents are
  // compared where a file's time of change is another one) with these options and is whole.
  std::string cache = {};
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
