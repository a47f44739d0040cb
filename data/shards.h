#pragma once
#include <functional>
#include <memory>
#include <string>

#include "data/dataset.h"
#include "engine/files/locked_file.h"

namespace pursuit::data {

enum class Packing { files, raw };
inline std::vector<Choice<Packing>> choices_of(Packing) {
  return {{"files", Packing::files, "the files as they are"},
          {"raw", Packing::raw, "decoded 8-bit pictures, the shorter side at most --shorter"}};
}

struct PackOptions {
  Packing packing = Packing::files;
  int shorter = 256;                            // raw: larger pictures are resized bicubically
  int64_t shard_bytes = int64_t(1) << 30;       // a shard ends with the picture that reaches this
  std::string root;                             // folder that names are kept relative to
  std::string source;                           // fingerprint of the data set, 16 characters
  std::function<void(int64_t done)> tick = {};  // nullable
  std::function<bool()> stop = {};              // nullable: asked before every picture that is checked and
                                                // every `at_once` that are packed
  int64_t at_once = 64;                         // pictures in memory
};

struct Packed {
  int64_t pictures = 0, left_out = 0;  // in the shards; damaged ones (only if the data set skips them)
  int64_t shards = 0, kept = 0;        // kept: those of an earlier call
  bool complete = false;               // false: it was stopped
};

// Creates the folder and locks it; throws Error if it cannot, or another process packs into it.
LockedFile lock_shards(const std::string& folder);

// Throws Error if the data cannot be packed, or the folder has shards of this split that are not those that pack()
// would write there: of other data, another packing, size or version, or no shards at all. Damaged ones are
// packed again.
void check_shards(const std::string& folder, Split split, const Dataset& data, const PackOptions& options);

// Packs a split into folder/train-00000.shard, ... or test-00000.shard. A shard is written atomically; those of
// an earlier call that was stopped are kept, and the work goes on after them. The caller holds lock_shards(folder).
// Throws Error as check_shards, or if a picture cannot be read.
Packed pack(const Dataset& data, Split split, const std::string& folder, const PackOptions& options);

// The shards of a split. Files are memory-mapped; every picture's checksum is compared when it is read. Throws
// Error that names the file if a shard is missing, cut off, damaged or of another version.
std::unique_ptr<Dataset> open_shards(const std::string& path, Split split, const DatasetOptions& options);

}  // namespace pursuit::data
