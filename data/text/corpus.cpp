#include "data/text/corpus.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "data/text/corpus_cache.h"
#include "data/text/word_table.h"
#include "engine/base/error.h"
#include "engine/cpu/parallel.h"

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

struct Place {
  const std::string& file;
  int64_t line;  // from 1
};

// A file, or lines of one that follow a line with a word.
struct Part {
  TextFile text;
  bool continues = false;
};

std::string_view next_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  return line;
}

// Adds the ids of a text by id_of(word, place), or of its bytes. A line ends with 0, or its newline. `clean` is the
// text before words were changed.
template <class F> void encode_lines(const Part& part, std::string_view clean, TextSource::Layout layout,
                                     bool bytes, const F& id_of, Encoded& out) {
  // Whether the previous line was blank; all of the file so far.
  bool after_blank = !part.continues, all_blank = !part.continues;
  int64_t number = 0;
  for_each_line(part.text, bytes, [&](std::string_view line) {
    const std::string_view before = next_line(clean);
    const bool begins =
        layout == TextSource::Layout::grammar || (number == 0 && !part.continues) ||
        (layout == TextSource::Layout::wiki && after_blank && !all_blank && is_article_heading(before));
    if (begins) out.documents.push_back(int64_t(out.ids.size()));
    after_blank = is_blank(before);
    all_blank = all_blank && after_blank;
    ++number;
    if (bytes)
      for (const char c : line) out.ids.push_back(uint8_t(c));
    else
      for (std::string_view word; !(word = next_word(line)).empty();)
        out.ids.push_back(id_of(word, Place{part.text.name, part.text.first_line + number - 1}));
    out.ids.push_back(bytes ? '\n' : 0);
  });
}

template <class F> Encoded encode_files(const std::vector<TextFile>& files,
                                        const std::vector<TextFile>& clean, TextSource::Layout layout,
                                        bool bytes, const F& id_of) {
  Encoded out;
  for (size_t i = 0; i < files.size(); ++i)
    encode_lines({files[i]}, clean[i].text, layout, bytes, id_of, out);
  return out;
}

// The files in parts of at least so many bytes, each cut behind a line with a word.
std::vector<Part> parts_of(const std::vector<TextFile>& files, size_t least) {
  std::vector<Part> parts;
  for (const TextFile& file : files) {
    size_t begin = 0;
    for (size_t at = least; at < file.text.size();) {
      const size_t end = file.text.find('\n', at);
      if (end == std::string_view::npos) break;
      const size_t line = file.text.rfind('\n', end - 1) + 1;
      at = end + 1;
      if (is_blank(file.text.substr(line, end - line))) continue;
      parts.push_back({file, begin > 0});
      parts.back().text.text = file.text.substr(begin, at - begin);
      parts.back().text.offset += int64_t(begin);
      begin = at;
      at += least;
    }
    if (begin == file.text.size()) continue;
    parts.push_back({file, begin > 0});
    parts.back().text.text = file.text.substr(begin);
    parts.back().text.offset += int64_t(begin);
  }
  return parts;
}

Tokens tokens_of(Encoded encoded) {
  const auto owner = std::make_shared<const Encoded>(std::move(encoded));
  return {owner->ids, owner->documents, owner};
}

// Numbers words as they come, and counts them.
struct Numbering {
  WordTable table;
  std::vector<int64_t> counts;

  int32_t add(std::string_view word, int64_t count) {
    const int32_t number = table.add(word);
    if (size_t(number) == counts.size()) counts.push_back(0);
    counts[size_t(number)] += count;
    return number;
  }
};

// The vocabulary of the training text, and the text by it, in one pass over the text: each part numbers its words
// as they come; in the end they are renumbered by their frequency in all parts.
void number_words(Corpus& corpus, const CorpusOptions& options) {
  const std::vector<TextFile>& files = corpus.source.train;
  const std::vector<Part> parts = parts_of(files, size_t(options.part_bytes));
  std::vector<Numbering> numbered(parts.size());
  std::vector<Encoded> encoded(parts.size());
  parallel_for(int64_t(parts.size()), 1, [&](int64_t begin, int64_t end) {
    for (size_t p = size_t(begin); p < size_t(end); ++p) {
      encoded[p].ids.reserve(parts[p].text.text.size() / 4);  // words of most texts are longer
      encode_lines(
          parts[p], parts[p].text.text, corpus.source.layout, false,
          [&](std::string_view word, const Place&) { return numbered[p].add(word, 1) + 1; },  // 0 ends lines
          encoded[p]);
    }
  });

  Numbering all;
  for (const Numbering& part : numbered)
    for (size_t w = 0; w < part.counts.size(); ++w) all.add(part.table.words()[w], part.counts[w]);
  corpus.vocabulary = Vocabulary::of_counts(all.table.words(), all.counts, options.min_count,
                                            options.vocabulary_limit, files.empty() ? "" : files[0].name);

  std::vector<size_t> offsets{0};
  Encoded out;
  for (const Encoded& part : encoded) {
    for (const int64_t document : part.documents) out.documents.push_back(int64_t(offsets.back()) + document);
    offsets.push_back(offsets.back() + part.ids.size());
  }
  out.ids.resize(offsets.back());
  parallel_for(int64_t(parts.size()), 1, [&](int64_t begin, int64_t end) {
    for (size_t p = size_t(begin); p < size_t(end); ++p) {
      std::vector<int32_t> ids{0};
      for (const std::string_view word : numbered[p].table.words()) {
        const int64_t id = corpus.vocabulary.find(word);
        ids.push_back(int32_t(id < 0 ? corpus.vocabulary.unknown() : id));
      }
      std::transform(encoded[p].ids.begin(), encoded[p].ids.end(), out.ids.begin() + ptrdiff_t(offsets[p]),
                     [&](int32_t number) { return ids[size_t(number)]; });
      encoded[p] = {};
    }
  });
  corpus.train = tokens_of(std::move(out));
}

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
  return encode(files, files, layout, vocabulary);
}

Tokens encode(const std::vector<TextFile>& files, const std::vector<TextFile>& clean,
              TextSource::Layout layout, const Vocabulary& vocabulary) {
  if (vocabulary.is_bytes())
    return tokens_of(encode_files(files, clean, layout, true, [](const auto&, auto) { return 0; }));
  WordTable table;
  for (const std::string& word : vocabulary.words()) table.add(word);
  const int32_t unknown = int32_t(vocabulary.unknown());
  return tokens_of(encode_files(files, clean, layout, false, [&](std::string_view word, const Place& place) {
    const int32_t id = table.find(word);
    if (id < 0 && unknown < 0)
      fail("text", place.file + ": line " + std::to_string(place.line) + ": the word '" + std::string(word) +
                       "' is not in the vocabulary, which has no <unk>. Train with --min-count 2, so that it "
                       "has one, if this text and the training text belong together");
    return id < 0 ? unknown : id;
  }));
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
    if (cached) open_cache_folder(options.cache);
    if (options.bytes) {
      corpus.vocabulary = Vocabulary::of_bytes();
      corpus.train = encode(source.train, source.layout, corpus.vocabulary);
    } else {
      number_words(corpus, options);
    }
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
