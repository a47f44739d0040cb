#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/files/atomic_file.h"
#include "engine/files/mapped_file.h"

// One file of a packed data set. All numbers are little-endian:
//   head   magic, version, shorter (0: files as they are), source [16], total, first
//   the pictures' bytes, one after the other
//   index  an entry for each picture, then names, classes, classes that occur, name of the test split
//   foot   end, count, offset of the index, XXH3 of head, index and these three numbers
// A shard has the pictures [first, end) of the `total` of its split; `count` is less if damaged ones were left
// out. Texts and lists begin with their length as u64.
namespace pursuit::data {

struct ShardHead {
  uint64_t magic;
  uint32_t version, shorter;
  char source[16];
  uint64_t total, first;
};

struct ShardEntry {
  uint64_t offset, bytes, hash;  // XXH3 of the picture's bytes
  int64_t label;
  uint32_t width, height;  // raw: of the 8-bit picture [height, width, 1 or 3]; otherwise 0
};

// What all shards of a split have in common.
struct ShardSet {
  std::vector<std::string> classes;
  std::vector<int64_t> present;  // the classes that occur
  std::string test_split;
  friend bool operator==(const ShardSet&, const ShardSet&) = default;
};

// The checksum in the foot, of the head's bytes, those of the index and the foot's before it.
uint64_t shard_checksum(std::string_view head, std::string_view index, std::string_view foot);

class ShardWriter {
 public:
  // Nothing stands under `path` before finish().
  ShardWriter(const std::string& path, uint32_t shorter, const std::string& source, int64_t total,
              int64_t first);
  void add(std::span<const uint8_t> bytes, int64_t label, const std::string& name, int width, int height);
  int64_t bytes() const { return int64_t(position_); }
  void finish(int64_t end, const ShardSet& set);

 private:
  AtomicFile file_;
  ShardHead head_;
  uint64_t position_;
  std::vector<ShardEntry> entries_;
  std::vector<std::string> names_;
};

class Shard {
 public:
  // Throws Error that names the file if it is cut off, damaged or of another version.
  explicit Shard(const std::string& path);
  const ShardHead& head() const { return head_; }
  int64_t end() const { return end_; }
  const ShardSet& set() const { return set_; }
  const std::vector<ShardEntry>& entries() const { return entries_; }
  const std::string& name(size_t i) const { return names_[i]; }
  const std::string& path() const { return file_->path(); }
  // Throws Error unless the picture's checksum is right.
  std::span<const uint8_t> picture(size_t i) const;

 private:
  std::unique_ptr<MappedFile> file_;
  ShardHead head_;
  int64_t end_ = 0;
  std::vector<ShardEntry> entries_;
  std::vector<std::string> names_;
  ShardSet set_;
};

}  // namespace pursuit::data
