#include "data/fingerprint.h"

#include <cstdio>
#include <filesystem>

#include "data/files.h"

namespace pursuit::data {

namespace {

namespace fs = std::filesystem;

// 64-bit FNV-1a (Fowler, Noll, Vo) over texts and numbers. A text ends with a byte that does not occur in
// UTF-8, so that "ab", "c" differs from "a", "bc".
class Hash {
 public:
  void add(std::string_view text) {
    for (const char c : text) byte(static_cast<unsigned char>(c));
    byte(0xFF);
  }
  void add(int64_t number) {
    for (int shift = 0; shift < 64; shift += 8) byte(static_cast<unsigned char>(uint64_t(number) >> shift));
  }
  std::string text() const {
    char digits[17];
    std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(value_));
    return digits;
  }

 private:
  void byte(unsigned char b) { value_ = (value_ ^ b) * 0x100000001b3; }
  uint64_t value_ = 0xcbf29ce484222325;
};

// The size of a sample's file, or -1 if there is none. Data sets of few files name them without the folder,
// see open_dataset.
int64_t size_of(const std::string& file, const std::string& root) {
  std::error_code none;
  auto size = fs::file_size(file, none);
  for (const char* inner : {"", "cifar-10-batches-bin", "CIFAR-10-C", "raw"})
    if (none && !root.empty()) size = fs::file_size(fs::path(root) / inner / file, none);
  return none ? -1 : int64_t(size);
}

// Adds samples by name: "train/cat/1.png", or "images-idx3-ubyte#12" in a file of many samples.
class Samples {
 public:
  Samples(Hash& hash, const std::string& root) : hash_(hash), root_(root) {}
  void add(const std::string& name) {
    hash_.add(name_below(root_, name));
    std::error_code none;
    const bool whole = fs::is_regular_file(name, none);
    const std::string file = whole ? name : name.substr(0, name.rfind('#'));
    if (file != last_) hash_.add(size_of(file, root_));
    last_ = file;
  }

 private:
  Hash& hash_;
  const std::string& root_;
  std::string last_;
};

}  // namespace

std::string fingerprint(const Dataset& data, const std::string& root) {
  Hash hash;
  for (const std::string& c : data.classes()) hash.add(c);
  Samples samples(hash, root);
  for (int64_t i = 0; i < data.size(); ++i) {
    if (const auto id = data.id(i)) {
      hash.add(id->name);
      hash.add(id->number);
    } else {
      samples.add(data.name(i));
    }
    hash.add(data.label(i));
  }
  return hash.text();
}

std::string fingerprint(const SegmentationDataset& data, const std::string& root) {
  Hash hash;
  for (const std::string& c : data.classes()) hash.add(c);
  Samples samples(hash, root);
  for (int64_t i = 0; i < data.size(); ++i) {
    samples.add(data.name(i));
    if (const std::string labels = data.label_file(i); !labels.empty()) samples.add(labels);
  }
  return hash.text();
}

std::string fingerprint(const std::vector<TextFile>& files, const std::string& root) {
  Hash hash;
  for (const TextFile& file : files) {
    hash.add(name_below(root, file.name));
    hash.add(file.offset);
    hash.add(int64_t(file.text.size()));
  }
  return hash.text();
}

std::string fingerprint(std::string_view text) {
  Hash hash;
  hash.add(text);
  return hash.text();
}

}  // namespace pursuit::data
