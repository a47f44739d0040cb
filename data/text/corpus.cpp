#include "data/text/corpus.h"

#include <algorithm>
#include <cstdio>

#include "data/text/corpus_cache.h"
#include "engine/base/error.h"

namespace pursuit::data {
namespace {

struct Encoded {
  std::vector<int32_t> ids;
  std::vector<int64_t> documents;
};

// True for " = Title = " but not for " = = Section = = ".
bool is_article_heading(std::string_view line) {
  std::string_view first = next_word(line);
  if (first != "=") return false;
  std::string_view second = next_word(line), last = second, before;
  for (std::string_view word; !(word = next_word(line)).empty(); last = word) before = last;
  return second != "=" && !before.empty() && before != "=" && last == "=";
}

bool is_blank(std::string_view line) { return next_word(line).empty(); }

std::string per_cent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * share);
  return text;
}

}  // namespace

Tokens first_tokens(Tokens tokens, int64_t count) {
  if (count <= 0 || count >= int64_t(tokens.ids.size())) return tokens;
  tokens.ids = tokens.ids.first(size_t(count));
  const auto end = std::lower_bound(tokens.documents.begin(), tokens.documents.end(), count);
  tokens.documents = tokens.documents.first(size_t(end - tokens.documents.begin()));
  return tokens;
}

Tokens encode(const std::vector<TextFile>& files, TextSource::Layout layout, const Vocabulary& vocabulary) {
  const auto out = std::make_shared<Encoded>();
  for (const TextFile& file : files) {
    bool after_blank = true, all_blank = true;  // of the previous line; of the document so far
    int64_t number = 0;
    for_each_line(file, vocabulary.is_bytes(), [&](std::string_view line) {
      const bool begins =
          layout == TextSource::Layout::grammar || number == 0 ||
          (layout == TextSource::Layout::wiki && after_blank && !all_blank && is_article_heading(line));
      if (begins) out->documents.push_back(int64_t(out->ids.size()));
      after_blank = is_blank(line);
      all_blank = all_blank && after_blank;
      ++number;
      if (vocabulary.is_bytes()) {
        for (const char c : line) out->ids.push_back(uint8_t(c));
      } else {
        for (std::string_view word; !(word = next_word(line)).empty();) {
          int64_t id = vocabulary.find(word);
          if (id < 0) id = vocabulary.unknown();
          if (id < 0)
            fail("text", file.name + ": line " + std::to_string(number) + ": the word '" + std::string(word) +
                             "' is not in the vocabulary, which has no <unk>; is this text of another data "
                             "set? For a vocabulary with <unk> train with --min-count 2");
          out->ids.push_back(int32_t(id));
        }
      }
      out->ids.push_back(int32_t(vocabulary.line_end()));
    });
  }
  return {out->ids, out->documents, out};
}

double unknown_share(const Tokens& tokens, const Vocabulary& vocabulary) {
  if (tokens.ids.empty() || vocabulary.unknown() < 0) return 0;
  return double(std::count(tokens.ids.begin(), tokens.ids.end(), vocabulary.unknown())) /
         double(tokens.ids.size());
}

void check_same_language(const Tokens& tokens, const Vocabulary& vocabulary, double training_share,
                         const std::string& name) {
  const double share = unknown_share(tokens, vocabulary);
  if (share > training_share + 0.25)
    fail("text", name + ": " + per_cent(share) +
                     " of its words are not in the vocabulary, of the training text " +
                     per_cent(training_share) +
                     "; it belongs to another data set, and no score on it would "
                     "mean anything");
}

const Tokens& Corpus::split(TextSplit s) const {
  return s == TextSplit::train ? train : s == TextSplit::valid ? valid : test;
}

Corpus open_corpus(const std::string& path, const CorpusOptions& options) {
  Corpus corpus;
  corpus.source = open_text(path);
  const bool cached = !options.cache.empty() && corpus.source.layout != TextSource::Layout::grammar;
  if (cached && read_cache(corpus, options)) {
    corpus.from_cache = true;
  } else {
    const TextSource& source = corpus.source;
    corpus.vocabulary = options.bytes
                            ? Vocabulary::of_bytes()
                            : Vocabulary::of_words(source.train, options.min_count, options.vocabulary_limit);
    corpus.train = encode(source.train, source.layout, corpus.vocabulary);
    corpus.valid = encode(source.valid, source.layout, corpus.vocabulary);
    corpus.test = encode(source.test, source.layout, corpus.vocabulary);
    if (cached) write_cache(corpus, options);
  }
  corpus.unknown_share = unknown_share(corpus.train, corpus.vocabulary);
  for (const TextSplit split : {TextSplit::valid, TextSplit::test})
    if (!corpus.split(split).ids.empty())
      check_same_language(corpus.split(split), corpus.vocabulary, corpus.unknown_share,
                          corpus.source.split(split)[0].name);
  return corpus;
}

}  // namespace pursuit::data
