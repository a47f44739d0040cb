#pragma once
#include <memory>
#include <string>
#include <vector>

#include "data/split.h"
#include "engine/base/error.h"

namespace pursuit::data {

// A data set that is published corrupted consists of parts, each with the same pictures under one corruption
// at one severity. Its Format lists them, and the options' `part` names the one to open.
struct CorruptedPart {
  std::string corruption;  // one of corruption_names()
  int severity = 0;        // 1 to 5; 0: no part
  std::string folder() const { return corruption + "/" + std::to_string(severity); }
  bool operator==(const CorruptedPart&) const = default;
};

// The parts that are folders ROOT/CORRUPTION/SEVERITY, in the order of corruption_names(). Folders of other
// names are left out. Throws Error if the path cannot be listed.
std::vector<CorruptedPart> corrupted_folders(const std::string& root);

// Throws Error unless a part is named: such a set has no pictures for training.
void require_part(const char* where, const std::string& path, const CorruptedPart& part);

// Format::open of a set of such folders, each of which is a set in another format of Formats.
template <class Formats, class Set, class Options>
std::unique_ptr<Set> open_corrupted_folder(const char* where, const std::string& root, Split split,
                                           Options options) {
  require_part(where, root, options.part);
  const auto found = Formats::find(where, root + "/" + options.part.folder(), "auto");
  if (found.format.parts) fail(where, found.folder + " is a set of corrupted pictures inside another one");
  options.part = {};
  return found.format.open(found.folder, split, options);
}

}  // namespace pursuit::data
