#include "engine/base/text.h"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "data/text/batches.h"
#include "data/text/corpus.h"
#include "data/text/corpus_cache.h"
#include "data/text/grammar.h"
#include "data/text/word_changes.h"
#include "data/text/word_table.h"
#include "engine/base/error.h"
#include "engine/base/random.h"
#include "tests/message_of.h"
#include "tests/needs.h"
#include "tests/temporary_folder.h"

using namespace pursuit;
using namespace pursuit::data;
namespace fs = std::filesystem;

namespace {

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

void check_message(const std::string& message, std::initializer_list<const char*> parts) {
  for (const char* part : parts) {
    INFO(message, " lacks ", part);
    CHECK(message.find(part) != std::string::npos);
  }
}

std::vector<int64_t> ids_of(const Tokens& t) { return {t.ids.begin(), t.ids.end()}; }
std::vector<int64_t> documents_of(const Tokens& t) { return {t.documents.begin(), t.documents.end()}; }

Tokens tokens_of(const std::vector<int64_t>& ids, std::vector<int64_t> documents = {0}) {
  struct Both {
    std::vector<int32_t> ids;
    std::vector<int64_t> documents;
  };
  const auto both = std::make_shared<Both>(Both{{ids.begin(), ids.end()}, std::move(documents)});
  return {both->ids, both->documents, both};
}

// A wiki set of three small files.
fs::path small_wiki(const TemporaryFolder& folder) {
  const fs::path path = folder.path / "wiki";
  write(path / "wiki.train.tokens",
        " \n = A = \n \n b c b \n \n = D = \n \n = = not a title = = \n c <unk> b \n");
  write(path / "wiki.valid.tokens", " b c \n");
  write(path / "wiki.test.tokens", " c \n b\n");
  return path;
}

}  // namespace

DATA_TEST_CASE("text: WikiText-2 has its published counts", "wikitext-2") {
  const std::string path = shared_data("wikitext-2");
  const Corpus corpus = open_corpus(path, {});
  CHECK(corpus.train.ids.size() == 2'088'628);
  CHECK(corpus.valid.ids.size() == 217'646);
  CHECK(corpus.test.ids.size() == 245'569);
  CHECK(corpus.vocabulary.size() == 33'278);
  CHECK(corpus.vocabulary.words()[0] == "<eos>");
  CHECK(corpus.vocabulary.words()[1] == "the");  // the most frequent word
  CHECK(corpus.train.documents.size() > 595);    // 600 articles are published; a heading is only a pattern
  CHECK(corpus.train.documents.size() < 605);

  const Corpus limited = open_corpus(path, {.vocabulary_limit = 1000});
  CHECK(limited.vocabulary.size() == 1000);
  CHECK(limited.vocabulary.unknown() > 0);
  CHECK(limited.unknown_share > 0.2);
}

TEST_CASE("text: words are numbered by falling frequency, <eos> first") {
  TemporaryFolder folder;
  const Corpus corpus = open_corpus(small_wiki(folder).string(), {});
  CHECK(corpus.vocabulary.list() == "<eos>\n=\nb\nc\nA\nD\nnot\na\ntitle\n<unk>\n");
  CHECK(ids_of(corpus.train) == std::vector<int64_t>{0, 1, 4, 1, 0, 0, 2, 3, 2, 0, 0, 1, 5, 1,
                                                     0, 0, 1, 1, 6, 7, 8, 1, 1, 0, 3, 9, 2, 0});
  CHECK(documents_of(corpus.train) == std::vector<int64_t>{0, 11});
  CHECK(corpus.vocabulary.decode(ids_of(corpus.test)) == "c\nb\n");
  CHECK(corpus.unknown_share == doctest::Approx(1 / 28.0));

  const Corpus common = open_corpus(small_wiki(folder).string(), {.min_count = 2});
  CHECK(common.vocabulary.list() == "<eos>\n<unk>\n=\nb\nc\n");
  const Corpus few = open_corpus(small_wiki(folder).string(), {.vocabulary_limit = 4});
  CHECK(few.vocabulary.list() == "<eos>\n<unk>\n=\nb\n");

  const Vocabulary again = Vocabulary::of_list(corpus.vocabulary.list(), "list");
  CHECK(again.words() == corpus.vocabulary.words());
  CHECK(again.unknown() == corpus.vocabulary.unknown());
}

TEST_CASE("text: a table numbers words in the order of their first occurrence") {
  std::vector<std::string> words;
  Random random(3);
  for (int i = 0; i < 60000; ++i)
    words.push_back("w" + std::to_string(random.below(20000) * random.below(9)));
  std::map<std::string, int32_t> numbers;
  WordTable table;
  for (const std::string& word : words) {
    const auto [known, is_new] = numbers.emplace(word, int32_t(numbers.size()));
    CHECK(table.find(word) == (is_new ? -1 : known->second));
    CHECK(table.add(word) == known->second);
  }
  REQUIRE(numbers.size() > 10000);
  for (const auto& [word, number] : numbers) {
    CHECK(table.find(word) == number);
    CHECK(table.words()[size_t(number)] == word);
  }
  CHECK(table.find("none") == -1);
}

TEST_CASE("text: one pass numbers the training text as its vocabulary does") {
  const TemporaryFolder folder;
  std::string text = " \n = A = \n \n";
  Random random(4);
  for (int i = 0; i < 3000; ++i)
    text += i % 97 == 0   ? "\n \n = T" + std::to_string(i) + " = \n \n"
            : i % 11 == 0 ? " <eos>"
            : i % 13 == 0 ? "\n"
                          : " w" + std::to_string(random.below(1 + random.below(400)));
  write(folder.path / "wiki.train.tokens", text + "\n");
  write(folder.path / "wiki.valid.tokens", " w0 w1 \n");
  for (const auto& [min_count, limit] : {std::pair<int64_t, int64_t>{1, 0}, {3, 0}, {1, 50}}) {
    const Corpus corpus = open_corpus(folder.path.string(),
                                      {.min_count = min_count, .vocabulary_limit = limit, .part_bytes = 90});
    std::vector<std::string_view> words;
    std::map<std::string_view, int64_t> numbers;
    std::vector<int64_t> counts;
    for_each_line(corpus.source.train[0], false, [&](std::string_view line) {
      for (std::string_view word; !(word = next_word(line)).empty();) {
        const auto [known, is_new] = numbers.emplace(word, int64_t(words.size()));
        if (is_new) words.push_back(word), counts.push_back(0);
        ++counts[size_t(known->second)];
      }
    });
    const Vocabulary vocabulary = Vocabulary::of_counts(words, counts, min_count, limit, "");
    CHECK(corpus.vocabulary.words() == vocabulary.words());
    const Tokens tokens = encode(corpus.source.train, corpus.source.layout, vocabulary);
    CHECK(ids_of(corpus.train) == ids_of(tokens));
    CHECK(documents_of(corpus.train) == documents_of(tokens));
    CHECK(corpus.train.ids.size() > 3000);
    CHECK(corpus.train.documents.size() > 20);
  }
}

TEST_CASE("text: bytes are numbers of their own") {
  TemporaryFolder folder;
  write(folder.path / "train.txt", std::string("a\xff\0b\n", 5));
  write(folder.path / "valid.txt", "ab");
  const Corpus corpus = open_corpus(folder.path.string(), {.bytes = true});
  CHECK(corpus.vocabulary.size() == 256);
  CHECK(ids_of(corpus.train) == std::vector<int64_t>{'a', 255, 0, 'b', '\n'});
  CHECK(corpus.vocabulary.decode(ids_of(corpus.train)) == std::string("a\xff\0b\n", 5));
  CHECK(corpus.vocabulary.decode(ids_of(corpus.valid)) == "ab\n");
  CHECK(corpus.test.ids.empty());
}

TEST_CASE("text: a byte order mark is no part of it") {
  TemporaryFolder folder;
  const std::string mark = "\xef\xbb\xbf";
  write(folder.path / "train.txt", mark + "b c\nb\n");
  write(folder.path / "valid.txt", mark + "b\n");
  const std::string path = folder.path.string();
  const Corpus corpus = open_corpus(path, {});
  CHECK(corpus.vocabulary.list() == "<eos>\nb\nc\n");
  CHECK(corpus.source.train[0].offset == 3);
  CHECK(ids_of(open_corpus(path, {.bytes = true}).valid) == std::vector<int64_t>{'b', '\n'});
  // A vocabulary's list is written by the program, and gives back every word as it was.
  CHECK_THROWS_AS(Vocabulary::of_list(mark + "<eos>\nb\n", "v"), Error);
  CHECK(Vocabulary::of_list("<eos>\n" + mark + "b\n", "v").find(mark + "b") == 1);
  write(folder.path / "train.txt", mark + "b\nc\xff\n");
  check_message(message_of([&] { open_corpus(path, {}); }), {"train.txt: byte 6 is not valid UTF-8"});
  write(folder.path / "train.txt", mark);
  check_message(message_of([&] { open_corpus(path, {}); }), {"train.txt is empty"});
  // A text that is cut into splits counts from the file's beginning too.
  std::string lines = mark;
  for (int i = 0; i < 20; ++i) lines += "word\n";
  write(folder.path / "whole/a.txt", lines);
  CHECK(open_text(path + "/whole").valid[0].offset == 3 + 19 * 5);
}

TEST_CASE("text: folders of plain text") {
  TemporaryFolder folder;
  write(folder.path / "split/train/1.txt", "a b\n");
  write(folder.path / "split/train/2.txt", "b\nc\n");
  write(folder.path / "split/valid/3.txt", "a\n");
  const Corpus split = open_corpus((folder.path / "split").string(), {});
  CHECK(documents_of(split.train) == std::vector<int64_t>{0, 3});
  CHECK(split.vocabulary.decode(ids_of(split.train)) == "a b\nb\nc\n");

  std::string text;
  for (int i = 0; i < 100; ++i) text += "word\n";
  write(folder.path / "whole/a.txt", text.substr(0, 300));
  write(folder.path / "whole/b.txt", text.substr(300));
  const Corpus whole = open_corpus((folder.path / "whole").string(), {});
  CHECK(whole.train.ids.size() == 182);  // 91 lines: the cut goes on to the line's end
  CHECK(whole.valid.ids.size() == 10);
  CHECK(whole.test.ids.size() == 8);
  CHECK(documents_of(whole.train) == std::vector<int64_t>{0, 120});
}

TEST_CASE("text: a folder with a split but no training text is not trained on") {
  TemporaryFolder folder;
  const auto message_with = [&](const std::string& set, const std::string& file) {
    write(folder.path / set / file, "b c\nb c\nb c\n");
    return message_of([&] { open_text((folder.path / set).string()); });
  };
  std::string lines;
  for (int i = 0; i < 20; ++i) lines += "word\n";
  for (const char* set : {"a", "b", "c", "d"}) write(folder.path / set / "my-training.txt", lines);
  check_message(message_with("a", "valid.txt"), {"holds valid.txt but no train.txt", "rename"});
  check_message(message_with("b", "Test.txt"), {"holds Test.txt but no train.txt"});
  check_message(message_with("c", "test/1.txt"), {"holds test/ but no train/"});
  fs::create_directories(folder.path / "d/train");
  check_message(message_with("d", "Valid/1.txt"), {"holds Valid/ but no valid/"});
  check_message(message_with("e", "TRAIN.txt"), {"holds TRAIN.txt but no train.txt"});
}

TEST_CASE("text: a name that begins with wiki. makes no WikiText") {
  TemporaryFolder folder;
  std::string lines;
  for (int i = 0; i < 20; ++i) lines += "word\n";
  write(folder.path / "wiki.en.txt", lines);
  CHECK(open_text(folder.path.string()).layout == TextSource::Layout::text);
}

TEST_CASE("text: the cache is used if it is whole and of these files") {
  TemporaryFolder folder;
  const std::string path = small_wiki(folder).string();
  const CorpusOptions options{.cache = (folder.path / "cache").string()};
  const Corpus first = open_corpus(path, options);
  CHECK_FALSE(first.from_cache);
  const Corpus second = open_corpus(path, options);
  CHECK(second.from_cache);
  CHECK(second.vocabulary.words() == first.vocabulary.words());
  for (const TextSplit s : {TextSplit::train, TextSplit::valid, TextSplit::test}) {
    CHECK(ids_of(second.split(s)) == ids_of(first.split(s)));
    CHECK(documents_of(second.split(s)) == documents_of(first.split(s)));
  }
  CHECK_FALSE(open_corpus(path, {.min_count = 2, .cache = options.cache}).from_cache);

  fs::path cache;
  for (const auto& entry : fs::directory_iterator(options.cache))
    if (fs::file_size(entry) > fs::file_size(cache.empty() ? entry.path() : cache) || cache.empty())
      cache = entry.path();
  std::string good;
  {
    std::ifstream in(cache, std::ios::binary);
    good.assign(std::istreambuf_iterator<char>(in), {});
  }
  Corpus empty;
  empty.source = open_text(path);
  SUBCASE("a changed byte anywhere is noticed") {
    for (size_t at = 0; at < good.size(); ++at) {
      std::string bad = good;
      bad[at] = char(bad[at] ^ 1);
      write(cache, bad);
      REQUIRE_FALSE(read_cache(empty, options));
    }
    const Corpus rebuilt = open_corpus(path, options);
    CHECK_FALSE(rebuilt.from_cache);
    CHECK(ids_of(rebuilt.train) == ids_of(first.train));
    CHECK(open_corpus(path, options).from_cache);
  }
  SUBCASE("so is a missing end") {
    for (size_t size = 0; size < good.size(); ++size) {
      write(cache, good.substr(0, size));
      REQUIRE_FALSE(read_cache(empty, options));
    }
  }
  SUBCASE("and other text of the same size") {
    write(fs::path(path) / "wiki.valid.tokens", " c b \n");
    const Corpus rebuilt = open_corpus(path, options);
    CHECK_FALSE(rebuilt.from_cache);
    CHECK(rebuilt.vocabulary.decode(ids_of(rebuilt.valid)) == "c b\n");
  }
  SUBCASE("and of the same time, too") {
    const fs::path text = fs::path(path) / "wiki.valid.tokens";
    const auto time = fs::last_write_time(text);
    write(text, " c b \n");
    fs::last_write_time(text, time);
    const Corpus rebuilt = open_corpus(path, options);
    CHECK_FALSE(rebuilt.from_cache);
    CHECK(rebuilt.vocabulary.decode(ids_of(rebuilt.valid)) == "c b\n");
  }
  SUBCASE("the same text touched again is the same") {
    fs::last_write_time(fs::path(path) / "wiki.train.tokens", fs::file_time_type::clock::now());
    CHECK(open_corpus(path, options).from_cache);
  }
}

TEST_CASE("text: what cannot be read is an error that says where") {
  TemporaryFolder folder;
  const fs::path path = small_wiki(folder);
  const auto open = [&](const CorpusOptions& options = {}) { open_corpus(path.string(), options); };
  SUBCASE("nothing there") {
    check_message(message_of([&] { open_corpus((path / "no").string(), {}); }), {"does not exist"});
    write(folder.path / "empty/x.bin", "x");
    check_message(message_of([&] { open_corpus((folder.path / "empty").string(), {}); }),
                  {"no known layout"});
  }
  SUBCASE("a path that cannot be looked at") {  // as below a folder without permission, which root always has
    const std::string name(300, 'n');
    check_message(message_of([&] { open_corpus((path / name).string(), {}); }),
                  {"nnn", "File name too long"});
    check_message(message_of([&] { open({.cache = (path / name).string()}); }),
                  {"cannot write to the cache folder", "nnn", "File name too long"});
  }
  SUBCASE("an empty file") {
    write(path / "wiki.valid.tokens", "");
    check_message(message_of([&] { open(); }), {"wiki.valid.tokens", "is empty"});
  }
  SUBCASE("no validation split") {
    fs::remove(path / "wiki.valid.tokens");
    check_message(message_of([&] { open(); }), {"holds no wiki.valid.tokens"});
  }
  SUBCASE("not UTF-8") {
    write(path / "wiki.train.tokens", " a b \n c \xc3( \n");
    check_message(message_of([&] { open(); }), {"wiki.train.tokens", "byte 9", "not valid UTF-8"});
    CHECK(message_of([&] { open({.bytes = true}); }) == "");
  }
  SUBCASE("NULs") {
    write(path / "wiki.train.tokens", " a b \n" + std::string(100, '\0') + "\n");
    check_message(message_of([&] { open(); }), {"wiki.train.tokens", "byte 6", "NUL"});
  }
  SUBCASE("one endless word") {
    write(path / "wiki.train.tokens", "a " + std::string(10000, 'x'));
    check_message(message_of([&] { open(); }), {"wiki.train.tokens", "byte 2", "4096"});
  }
  SUBCASE("a word that the training part of a file lacks") {
    std::string text;
    for (int line = 1; line < 400; ++line) text += "a b c\n";
    write(folder.path / "plain/all.txt", text + "zebra\n");
    check_message(message_of([&] { open_corpus((folder.path / "plain").string(), {}); }),
                  {"all.txt: line 400:", "'zebra'", "--min-count 2"});
  }
  SUBCASE("blank text") {
    write(path / "wiki.train.tokens", " \n \n");
    check_message(message_of([&] { open(); }), {"wiki.train.tokens", "no word"});
  }
  SUBCASE("text of another vocabulary") {
    write(path / "wiki.valid.tokens", "completely other words\n");
    check_message(message_of([&] { open(); }), {"wiki.valid.tokens", "75.0 %", "another data set"});
    write(path / "wiki.train.tokens", "a b c\n");  // and without <unk>
    check_message(message_of([&] { open(); }), {"wiki.valid.tokens", "line 1", "completely", "<unk>"});
  }
  SUBCASE("lists that are no vocabulary") {
    CHECK_THROWS_AS(Vocabulary::of_list("", "v"), Error);
    check_message(message_of([] { Vocabulary::of_list("<eos>\na\na\n", "v"); }), {"v", "line 3", "repeats"});
    check_message(message_of([] { Vocabulary::of_list("a\n<eos>\n", "v"); }), {"line 1", "<eos>"});
    check_message(message_of([] { Vocabulary::of_list("<eos>\na b\n", "v"); }), {"line 2", "single word"});
  }
}

TEST_CASE("text batches: blocks of a stream") {
  // Seven tokens in rows of 3, two rows a batch: the fourth row is empty.
  TextBatches batches(tokens_of({1, 2, 3, 4, 5, 6, 7}), 0, {.batch_size = 2, .length = 3});
  REQUIRE(batches.steps() == 2);
  TextBatch b;
  batches.get(0, 0, b);
  CHECK(b.ids == std::vector<int64_t>{0, 1, 2, 6, 0, 0});
  CHECK(b.labels == std::vector<int64_t>{1, 2, 3, 7, -1, -1});
  CHECK(b.count == 4);
  batches.get(0, 1, b);
  CHECK(b.ids == std::vector<int64_t>{3, 4, 5, 0, 0, 0});
  CHECK(b.labels == std::vector<int64_t>{4, 5, 6, -1, -1, -1});
  CHECK(b.count == 3);
  CHECK_THROWS_AS(batches.get(0, 2, b), Error);
}

TEST_CASE("text batches: a row by its number, whatever the batches") {
  for (const bool masked : {false, true}) {
    TextBatchOptions options{.batch_size = 1, .length = 3};
    if (masked) options.masking = Masking{0.4, 9};
    const Tokens text = tokens_of({1, 2, 3, 4, 5, 6, 7});
    TextBatches one(text, 0, options);
    options.batch_size = 2;
    options.share = {1, 1, 2};
    const TextBatches two(text, 0, options);
    REQUIRE(two.rows() == one.steps());
    for (int64_t row = 0; row < one.rows(); ++row) {
      TextBatch want, got;
      one.get(0, row, want);
      two.get_row(row, got);
      CHECK((got.ids == want.ids && got.labels == want.labels && got.lengths == want.lengths));
      CHECK(got.count == want.count);
    }
    CHECK_THROWS_AS(two.get_row(two.rows(), *std::make_unique<TextBatch>()), Error);
  }
}

TEST_CASE("text batches: documents") {
  TextBatches batches(tokens_of({1, 2, 3, 4, 5, 6}, {0, 4}), 9,
                      {.batch_size = 3, .length = 3, .mode = TextBatchOptions::Mode::documents});
  REQUIRE(batches.steps() == 1);
  TextBatch b;
  batches.get(0, 0, b);
  CHECK(b.ids == std::vector<int64_t>{9, 1, 2, 3, 9, 9, 9, 5, 9});
  CHECK(b.labels == std::vector<int64_t>{1, 2, 3, 4, -1, -1, 5, 6, -1});
  CHECK(b.count == 6);
}

TEST_CASE("text batches: masked words, fifteen in a hundred, hidden, replaced or shown") {
  constexpr int64_t words = 50, length = 40, rows = 500;
  std::vector<int64_t> text(size_t(rows * length + 7));  // the last words are no whole row
  for (size_t i = 0; i < text.size(); ++i) text[i] = int64_t(i * i % 41);
  const TextBatchOptions options{
      .batch_size = 3, .length = length, .seed = 5, .masking = Masking{0.15, words}};
  TextBatches batches(tokens_of(text), 0, options), again(tokens_of(text), 0, options);
  CHECK(batches.rows() == rows);
  CHECK(batches.tokens() == 6 * rows);
  TextBatch b, same, next;
  int64_t hidden = 0, replaced = 0, shown = 0, differ = 0;
  std::vector<int64_t> of_place(size_t(length), 0);
  for (int64_t step = 0; step < batches.steps(); ++step) {
    batches.get(0, step, b);
    again.get(0, step, same);
    CHECK((b.ids == same.ids && b.labels == same.labels));
    again.get(1, step, next);
    differ += next.labels != b.labels;
    for (int64_t r = 0; r < 3; ++r) {
      const int64_t row = r * batches.steps() + step, first = r * length;
      CHECK(b.lengths[size_t(r)] == (row < rows ? length : 0));
      if (row >= rows) continue;
      int64_t chosen = 0;
      for (int64_t t = 0; t < length; ++t) {
        const int64_t word = text[size_t(row * length + t)], id = b.ids[size_t(first + t)],
                      label = b.labels[size_t(first + t)];
        if (label < 0) {
          CHECK(id == word);
          continue;
        }
        CHECK(label == word);
        CHECK((id >= 0 && id <= words));
        ++chosen;
        ++of_place[size_t(t)];
        ++(id == words ? hidden : id == word ? shown : replaced);
      }
      CHECK(chosen == 6);
    }
  }
  // Of 3000 words, with five standard deviations; a random word is the same in one case of 50.
  CHECK(hidden + replaced + shown == 6 * rows);
  CHECK(std::abs(double(hidden) - 2400) < 110);
  CHECK(std::abs(double(replaced) - 294) < 81);
  CHECK(differ == batches.steps());
  for (const int64_t count : of_place) CHECK(std::abs(double(count) - 75) < 40);  // every place alike

  CHECK(masked_words(1, {0.15, 9}) == 1);
  CHECK(masked_words(3, {1.0, 9}) == 3);
  TextBatchOptions wrong = options;
  wrong.mode = TextBatchOptions::Mode::documents;
  CHECK(message_of([&] { TextBatches(tokens_of(text), 0, wrong); }).find("rows by blocks") !=
        std::string::npos);
  wrong = options;
  wrong.length = int64_t(text.size()) + 1;
  CHECK(message_of([&] { TextBatches(tokens_of(text), 0, wrong); }).find("at most the text's 20007 tokens") !=
        std::string::npos);
}

TEST_CASE("text batches: the batches of a step, whoever takes them, are one batch of all their rows") {
  std::vector<int64_t> ids(1000);
  for (int64_t i = 0; i < 1000; ++i) ids[size_t(i)] = i;
  for (const bool shuffle : {false, true}) {
    TextBatchOptions options{.batch_size = 12, .length = 7, .shuffle = shuffle, .seed = 5};
    TextBatches whole(tokens_of(ids), 0, options);
    REQUIRE(whole.steps() == 12);  // 143 rows: the last step lacks one
    options.batch_size = 3;
    for (const int64_t count : {1, 2, 4}) {
      int compared = 0;
      for (int64_t first = 0; first < 4; first += count) {
        options.share = {first, count, 4};
        TextBatches part(tokens_of(ids), 0, options);
        REQUIRE(part.steps() == whole.steps());
        for (int64_t step = 0; step < whole.steps(); ++step)
          for (int64_t b = 0; b < count; ++b) {
            TextBatch want, got;
            whole.get(2, step, want);
            part.get(2, step, b, got);
            const size_t at = size_t((first + b) * 3 * 7);
            CHECK(std::equal(got.ids.begin(), got.ids.end(), want.ids.begin() + int64_t(at)));
            CHECK(std::equal(got.labels.begin(), got.labels.end(), want.labels.begin() + int64_t(at)));
            CHECK(got.count ==
                  std::count_if(got.labels.begin(), got.labels.end(), [](int64_t l) { return l >= 0; }));
            ++compared;
          }
        CHECK_THROWS_AS(part.get(2, 0, count, *std::make_unique<TextBatch>()), Error);
      }
      CHECK(compared == 48);
    }
  }
}

TEST_CASE("text batches: an epoch has every token once, in an order of its own, from wherever it starts") {
  std::vector<int64_t> ids(1000);
  for (int64_t i = 0; i < 1000; ++i) ids[size_t(i)] = i;
  const TextBatchOptions options{.batch_size = 4, .length = 7, .shuffle = true, .seed = 5};
  TextBatches batches(tokens_of(ids), 0, options);
  std::vector<std::vector<int64_t>> orders;
  for (const int64_t epoch : {0, 1, 0}) {
    std::vector<int64_t> order;
    int64_t count = 0;
    for (int64_t i = 0; i < batches.steps(); ++i) {
      TextBatch b;
      batches.get(epoch, i, b);
      count += b.count;
      for (const int64_t label : b.labels)
        if (label >= 0) order.push_back(label);
    }
    CHECK(count == 1000);
    CHECK(std::set<int64_t>(order.begin(), order.end()).size() == 1000);
    orders.push_back(order);
  }
  CHECK(orders[0] == orders[2]);
  CHECK(orders[0] != orders[1]);
  TextBatches other(tokens_of(ids), 0, options);
  TextBatch a, b;
  other.get(1, 17, a);
  batches.get(1, 17, b);
  CHECK(a.ids == b.ids);
}

TEST_CASE("grammar: its entropy is that of its lines") {
  const TextSource source = grammar_text();
  const GrammarFacts facts = grammar_facts();
  CHECK(open_corpus("", {}).vocabulary.size() == facts.vocabulary);
  // The stories' parts are drawn independently, so a line's probability is the product of their shares,
  // counted here; the second half repeats what is known, except the adjective after was or were.
  int64_t lines = 0, words = 0, bytes = 0;
  std::map<std::string, std::map<std::string, double>> counts;
  std::vector<std::vector<std::pair<std::string, std::string>>> choices;
  for_each_line(source.train[0], false, [&](std::string_view line) {
    bytes += int64_t(line.size()) + 1;
    std::vector<std::string> w;
    for (std::string_view rest = line, word; !(word = next_word(rest)).empty();) w.emplace_back(word);
    words += int64_t(w.size()) + 1;
    ++lines;
    size_t noun = 4;
    while (w[noun + 1] != "and") ++noun;
    std::vector<std::pair<std::string, std::string>> made = {{"giver", w[0]},
                                                             {"receiver of " + w[0], w[2]},
                                                             {"verb", w[1]},
                                                             {"determiner", w[3]},
                                                             {"count", std::to_string(noun)}};
    for (size_t i = 4; i < noun; ++i) made.push_back({"adjective", w[i]});
    const bool many = w[3] == "some" || w[3] == "three";
    made.push_back({many ? "nouns" : "noun", w[noun]});
    const bool thanks = w[noun + 3] == "thanked";
    made.push_back({"ending", thanks ? "thanked" : "saw"});
    CHECK(w[noun + 2] == (thanks ? w[2] : w[0]));
    CHECK(std::count(w.begin(), w.end(), w[noun]) == 2);
    if (!thanks) made.push_back({"adjective", w[w.size() - 2]});
    for (const auto& [what, value] : made) counts[what][value] += 1;
    choices.push_back(made);
  });
  double nats = 0;
  for (const auto& made : choices)
    for (const auto& [what, value] : made) {
      double total = 0;
      for (const auto& [v, n] : counts[what]) total += n;
      nats -= std::log(counts[what][value] / total);
    }
  CHECK(lines == 20000);
  CHECK(nats / double(lines) == doctest::Approx(facts.nats).epsilon(0.01));
  CHECK(double(words) / double(lines) == doctest::Approx(facts.words).epsilon(0.01));
  CHECK(double(bytes) / double(lines) == doctest::Approx(facts.bytes).epsilon(0.01));
}

TEST_CASE("deleted words: documents begin where they did, though a heading lost its words") {
  const TemporaryFolder folder;
  const std::string path = (folder.path / "wiki").string();
  write(path + "/wiki.train.tokens", " \n = Fox = \n \n cat dog\n \n = Dog = \n \n fox ");
  write(path + "/wiki.valid.tokens", " fox \n");
  for (const bool bytes : {false, true}) {
    const Corpus corpus = open_corpus(path, {.bytes = bytes});
    const TextFile& clean = corpus.source.train[0];
    const std::string text = change_words(clean.text, {.change = WordChange::deletion, .rate = 1}).text;
    REQUIRE(text == " \n = = \n \n \n \n = = \n \n \n");
    const Tokens changed =
        encode({{"changed", text, 0, nullptr}}, {clean}, corpus.source.layout, corpus.vocabulary);
    CHECK(documents_of(changed) == std::vector<int64_t>{0, int64_t(bytes ? text.rfind(" = = ") : 7)});
  }
}
