#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.h"
#include "engine/files/atomic_file.h"
#include "engine/files/mapped_file.h"

// One file of a packed data set. All numbers are little-endian:
//   head   magic, version, shorter (0: files as they are), source [16], total, first, limit, split
//   the pictures' bytes, one after the other
//   index  an entry for each picture, then names, classes, classes that occur, name of the test split
//   foot   end, count, offset of the index, XXH3 of head, index and these three numbers
// A shard has the pictures [first, end) of the `total` of its split and ends with the one that reaches `limit`
// bytes; `count` is less if damaged ones were left out. Texts and lists begin with their length as u64.
// Version 1 had no limit and no split.
namespace pursuit::data {

struct ShardHead {
  uint64_t magic = 0x6472616873757000;  // "\0pushard"
  uint32_t version = 2, shorter = 0;
  char source[16] = {};
  uint64_t total = 0, first = 0, limit = 0, split = 0;  // split: 0 train, 1 test
};

// A shard that is cut off, or whose bytes have another checksum than when it was written.
struct DamagedShard : Error {
  using Error::Error;
};

// The head alone. Throws DamagedShard if the file is shorter, and Error if it is no shard, or one of another
// version.
ShardHead read_shard_head(const std::string& path);

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

// Whether no name occurs twice and all are UTF-8, as reports need them.
bool are_class_names(std::vector<std::string> names);

class ShardWriter {
 public:
  // Nothing stands under `path` before finish().
  ShardWriter(const std::string& path, const ShardHead& head);
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
  // Throws as read_shard_head, and DamagedShard for the rest of the file but the pictures.
  explicit Shard(const std::string& path);
  const ShardHead& head() const { return head_; }
  int64_t end() const { return end_; }
  const ShardSet& set() const { return set_; }
  const std::vector<ShardEntry>& entries() const { return entries_; }
  const std::string& name(size_t i) const { return names_[i]; }
  const std::string& path() const { return file_->path(); }
  // The picture's bytes, copied to `buffer`: who writes to the file later changes nothing. Throws DamagedShard
  // unless their checksum is right.
  std::span<const uint8_t> picture(size_t i, std::vector<uint8_t>& buffer) const;
  // Compares the checksum of every picture, of which one at a time is in memory; false if it was stopped.
  bool check(const std::function<bool()>& stop) const;

 private:
  void require_same(size_t i, std::span<const uint8_t> bytes) const;

  std::unique_ptr<MappedFile> file_;
  ShardHead head_;
  int64_t end_ = 0;
  std::vector<ShardEntry> entries_;
  std::vector<std::string> names_;
  ShardSet set_;
};

}  // namespace pursuit::data
