#include "data/text/corpus_cache.h"

#include <cstring>
#include <filesystem>

#include "tests/fuzz/fuzz.h"

namespace pursuit::fuzz {

namespace {

constexpr size_t head = 16;  // magic and checksum

struct Made {
  data::Corpus corpus;  // its source alone
  data::CorpusOptions options{.cache = path_of("cache")};
  std::string name, cache;  // of the file that the cache keeps for it

  Made() {
    const std::string text = path_of("text");
    write("text/train.txt", "a b c\nb c d\n\na a <unk> e\n");
    write("text/valid.txt", "a b\nc\n");
    data::open_corpus(text, options);
    corpus.source = data::open_text(text);
    for (const auto& entry : std::filesystem::directory_iterator(options.cache))
      name = "cache/" + entry.path().filename().string();
    cache = read_file(path_of(name));
  }
};
Made& made() {
  static Made m;
  return m;
}

void read(std::string_view input) {
  write(made().name, input);
  data::Corpus corpus = made().corpus;
  if (!data::read_cache(corpus, made().options)) return;
  corpus.vocabulary.decode(std::vector<int64_t>(corpus.train.ids.begin(), corpus.train.ids.end()));
}

Parts split(std::string_view input) {
  return input.size() < head ? Parts() : Parts{std::string(input.substr(head))};
}

std::string join(const Parts& parts) {
  const uint64_t sum = data::cache_checksum(parts[0]);
  return made().cache.substr(0, 8) + std::string(reinterpret_cast<const char*>(&sum), sizeof sum) + parts[0];
}

std::vector<std::string> seeds() { return {made().cache}; }

}  // namespace

const Target target{.read = read, .split = split, .join = join, .seeds = seeds};

}  // namespace pursuit::fuzz
