#include "data/text/corpus_cache.h"

#define XXH_INLINE_ALL
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "engine/base/error.h"
#include "engine/files/atomic_file.h"
#include "engine/files/mapped_file.h"

// The file format, in little-endian words of 8 bytes: magic, checksum of the rest, key (options, and size,
// offset and fingerprint of every text file), lengths of the tables, and the tables: for
// each split its documents and its ids, then the list of words.
namespace pursuit::data {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<uint64_t>;

constexpr uint64_t magic = 0x3268636163747570;  // "putcach2"

uint64_t fingerprint(std::string_view bytes, uint64_t seed = 0) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::string_view bytes_of(const Words& words) {
  return {reinterpret_cast<const char*>(words.data()), words.size() * 8};
}

std::vector<const TextFile*> all_files(const TextSource& source) {
  std::vector<const TextFile*> files;
  for (const TextSplit s : {TextSplit::train, TextSplit::valid, TextSplit::test})
    for (const TextFile& file : source.split(s)) files.push_back(&file);
  return files;
}

// Everything that the encoding depends on except the contents of the files.
Words settings(const TextSource& source, const CorpusOptions& o) {
  return {uint64_t(source.layout), uint64_t(o.bytes),   uint64_t(o.min_count), uint64_t(o.vocabulary_limit),
          source.train.size(),     source.valid.size(), source.test.size()};
}

std::string path_of(const Corpus& corpus, const CorpusOptions& options) {
  uint64_t key = fingerprint(bytes_of(settings(corpus.source, options)));
  for (const TextFile* file : all_files(corpus.source))
    key = fingerprint(fs::absolute(file->name).lexically_normal().string(), key);
  char name[40];
  std::snprintf(name, sizeof name, "corpus-%016llx.cache", static_cast<unsigned long long>(key));
  return (fs::path(options.cache) / name).string();
}

size_t words_for(size_t bytes) { return (bytes + 7) / 8; }

// Reads a file's words sequentially; sets `ok` to false when data is missing.
struct Reader {
  std::string_view bytes;
  bool ok = true;
  std::string_view take(uint64_t count) {
    const uint64_t padded = count / 8 * 8 + (count % 8 ? 8 : 0);
    if (!ok || count > bytes.size() || padded > bytes.size()) {
      ok = false;
      return {};
    }
    const std::string_view taken = bytes.substr(0, count);
    bytes.remove_prefix(padded);
    return taken;
  }
  template <class T> std::span<const T> take_array(uint64_t count) {
    if (count > bytes.size() / sizeof(T)) ok = false;
    const std::string_view taken = take(ok ? count * sizeof(T) : 0);
    return {reinterpret_cast<const T*>(taken.data()), taken.size() / sizeof(T)};
  }
  uint64_t word() {
    const auto one = take_array<uint64_t>(1);
    return ok ? one[0] : 0;
  }
};

bool is_same_file(const TextFile& file, Reader& in) {
  const uint64_t size = in.word(), offset = in.word(), print = in.word();
  return in.ok && size == file.text.size() && int64_t(offset) == file.offset &&
         print == fingerprint(file.text);
}

bool are_ids(std::span<const int32_t> ids, int64_t size) {
  int32_t lowest = 0, highest = 0;
  for (const int32_t id : ids) lowest = std::min(lowest, id), highest = std::max(highest, id);
  return lowest >= 0 && highest < size;
}

bool are_documents(std::span<const int64_t> begins, size_t size) {
  if (begins.empty()) return size == 0;
  return begins[0] == 0 && begins.back() < int64_t(size) &&
         std::is_sorted(begins.begin(), begins.end(), std::less_equal<>());
}

}  // namespace

uint64_t cache_checksum(std::string_view bytes) { return fingerprint(bytes); }

void open_cache_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error && access(folder.c_str(), W_OK | X_OK) != 0) error = {errno, std::generic_category()};
  if (error) fail("text", "cannot write to the cache folder " + folder + ": " + error.message());
}

bool read_cache(Corpus& corpus, const CorpusOptions& options) {
  const std::string path = path_of(corpus, options);
  std::error_code error;
  if (!fs::is_regular_file(path, error) || access(path.c_str(), R_OK) != 0) return false;
  const auto file = std::make_shared<MappedFile>(path);
  Reader in{file->bytes()};
  if (in.word() != magic) return false;
  const uint64_t sum = in.word();
  if (!in.ok || sum != cache_checksum(in.bytes)) return false;
  for (const uint64_t setting : settings(corpus.source, options))
    if (in.word() != setting) return false;
  for (const TextFile* text : all_files(corpus.source))
    if (!is_same_file(*text, in)) return false;
  const uint64_t list = in.word();
  uint64_t documents[3], ids[3];
  for (int s = 0; s < 3; ++s) documents[s] = in.word(), ids[s] = in.word();
  Tokens* const splits[] = {&corpus.train, &corpus.valid, &corpus.test};
  for (int s = 0; s < 3; ++s)
    *splits[s] = {{}, in.take_array<int64_t>(documents[s]), file},
    splits[s]->ids = in.take_array<int32_t>(ids[s]);
  const std::string_view words = in.take(list);
  if (!in.ok || !in.bytes.empty()) return false;
  corpus.vocabulary = options.bytes ? Vocabulary::of_bytes() : Vocabulary::of_list(words, path);
  for (const Tokens* split : splits)
    if (!are_ids(split->ids, corpus.vocabulary.size()) || !are_documents(split->documents, split->ids.size()))
      return false;
  return true;
}

void write_cache(const Corpus& corpus, const CorpusOptions& options) {
  remove_leftovers(options.cache);
  const std::string list = corpus.vocabulary.list();
  Words words = settings(corpus.source, options);
  for (const TextFile* file : all_files(corpus.source))
    words.insert(words.end(), {file->text.size(), uint64_t(file->offset), fingerprint(file->text)});
  words.push_back(list.size());
  const Tokens* const splits[] = {&corpus.train, &corpus.valid, &corpus.test};
  for (const Tokens* split : splits) words.insert(words.end(), {split->documents.size(), split->ids.size()});
  const auto append = [&](const void* bytes, size_t count) {
    const size_t end = words.size();
    words.resize(end + words_for(count));
    if (count > 0) std::memcpy(&words[end], bytes, count);
  };
  for (const Tokens* split : splits) {
    append(split->documents.data(), split->documents.size_bytes());
    append(split->ids.data(), split->ids.size_bytes());
  }
  append(list.data(), list.size());
  const uint64_t head[] = {magic, cache_checksum(bytes_of(words))};
  AtomicFile file(path_of(corpus, options));
  file.write(head, sizeof head);
  file.write(words.data(), words.size() * 8);
  file.commit();
}

}  // namespace pursuit::data
