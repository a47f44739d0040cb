#include "data/text/source.h"

#include <algorithm>
#include <filesystem>

#include "data/dataset.h"
#include "data/text/grammar.h"
#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/files/mapped_file.h"

namespace pursuit::data {
namespace {

namespace fs = std::filesystem;

bool is_text(const std::string& name) { return fs::path(name).extension() == ".txt"; }

bool holds(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<TextFile> map_folder(const fs::path& folder) {
  std::vector<TextFile> files;
  for (const std::string& name : list_folder(folder.string()).files)
    if (is_text(name)) files.push_back(map_text((folder / name).string()));
  if (files.empty()) fail("text", folder.string() + " holds no .txt file");
  return files;
}

TextSource open_named(const fs::path& folder, const std::string& before, const std::string& after,
                      const std::vector<std::string>& files) {
  TextSource source;
  for (const TextSplit split : {TextSplit::train, TextSplit::valid, TextSplit::test}) {
    const std::string name = before + name_of(split) + after;
    auto& part = split == TextSplit::train   ? source.train
                 : split == TextSplit::valid ? source.valid
                                             : source.test;
    if (holds(files, name))
      part = {map_text((folder / name).string())};
    else if (split != TextSplit::test)
      fail("text", folder.string() + " holds no " + name + ": training needs " + before + "train" + after +
                       " and " + before + "valid" + after);
  }
  return source;
}

// Bytes [begin, end) of the concatenated files.
std::vector<TextFile> cut(const std::vector<TextFile>& files, int64_t begin, int64_t end) {
  std::vector<TextFile> parts;
  int64_t start = 0;
  for (const TextFile& file : files) {
    const int64_t size = int64_t(file.text.size());
    const int64_t from = std::clamp(begin - start, int64_t(0), size),
                  to = std::clamp(end - start, int64_t(0), size);
    if (from < to) {
      parts.push_back(file);
      parts.back().text = file.text.substr(size_t(from), size_t(to - from));
      parts.back().offset += from;
      parts.back().first_line += std::count(file.text.begin(), file.text.begin() + from, '\n');
    }
    start += size;
  }
  return parts;
}

// The first end of a line at or after byte `at` of the concatenated files.
int64_t line_end(const std::vector<TextFile>& files, int64_t at) {
  int64_t start = 0;
  for (const TextFile& file : files) {
    const int64_t size = int64_t(file.text.size());
    if (at < start + size) {
      const size_t newline = file.text.find('\n', size_t(at - start));
      return newline == std::string_view::npos ? start + size : start + int64_t(newline) + 1;
    }
    start += size;
  }
  return start;
}

// Throws Error if a name is that of a split, in any case: a text without training split would be trained on its
// test split.
void refuse_split_names(const std::string& folder, const std::vector<std::string>& names,
                        const std::string& ending) {
  for (const std::string& name : names) {
    std::string lower = name;
    for (char& c : lower)
      if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
    for (const TextSplit split : {TextSplit::train, TextSplit::valid, TextSplit::test}) {
      if (lower != name_of(split) + ending) continue;
      const std::string need = holds(names, "train" + ending) ? "valid" : "train";
      fail("text", folder + " holds " + name + " but no " + need + ending + ": rename the splits to train" +
                       ending + " and valid" + ending + ", or " + name + " if it is none");
    }
  }
}

TextSource hold_out(const std::vector<TextFile>& files, const std::string& folder) {
  int64_t size = 0;
  for (const TextFile& file : files) size += int64_t(file.text.size());
  const int64_t valid = line_end(files, size / 10 * 9), test = line_end(files, size / 20 * 19);
  TextSource source;
  source.train = cut(files, 0, valid);
  source.valid = cut(files, valid, test);
  source.test = cut(files, test, size);
  if (source.valid.empty())
    fail("text", folder +
                     ": the text cannot be cut at line ends into a training and a validation part; put "
                     "train.txt and valid.txt there");
  return source;
}

}  // namespace

const char* name_of(TextSplit split) {
  return split == TextSplit::train ? "train" : split == TextSplit::valid ? "valid" : "test";
}

TextSplit text_split(const std::string& name) {
  for (const TextSplit split : {TextSplit::train, TextSplit::valid, TextSplit::test})
    if (name == name_of(split)) return split;
  fail("text", "there is no split '" + name + "', need train, valid or test");
}

const std::vector<TextFile>& TextSource::split(TextSplit s) const {
  return s == TextSplit::train ? train : s == TextSplit::valid ? valid : test;
}

TextFile map_text(const std::string& path) {
  const auto file = std::make_shared<MappedFile>(path);
  const std::string_view bytes = file->bytes(), text = without_byte_order_mark(bytes);
  if (text.empty()) fail("text", path + " is empty: need text");
  return {path, text, int64_t(bytes.size() - text.size()), file};
}

TextSource open_text(const std::string& path) {
  if (path.empty()) return grammar_text();
  require_folder("text", path);
  const Listing listing = list_folder(path);
  const auto is_wiki = [](const std::string& f) { return f.starts_with("wiki.") && f.ends_with(".tokens"); };
  if (std::any_of(listing.files.begin(), listing.files.end(), is_wiki)) {
    TextSource source = open_named(path, "wiki.", ".tokens", listing.files);
    source.layout = TextSource::Layout::wiki;
    return source;
  }
  if (holds(listing.files, "train.txt")) return open_named(path, "", ".txt", listing.files);
  if (holds(listing.folders, "train") && holds(listing.folders, "valid")) {
    TextSource source;
    source.train = map_folder(fs::path(path) / "train");
    source.valid = map_folder(fs::path(path) / "valid");
    if (holds(listing.folders, "test")) source.test = map_folder(fs::path(path) / "test");
    return source;
  }
  refuse_split_names(path, listing.files, ".txt");
  std::vector<std::string> folders = listing.folders;
  for (std::string& folder : folders) folder += '/';
  refuse_split_names(path, folders, "/");
  if (std::any_of(listing.files.begin(), listing.files.end(), is_text))
    return hold_out(map_folder(path), path);
  fail("text", path +
                   " has no known layout. Understood are wiki.train.tokens and wiki.valid.tokens; "
                   "train.txt and valid.txt; folders train and valid of .txt files; or any .txt files");
}

}  // namespace pursuit::data
