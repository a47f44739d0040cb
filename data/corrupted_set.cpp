#include "data/corrupted_set.h"

#include "data/corruptions.h"
#include "data/files.h"

namespace pursuit::data {

std::vector<CorruptedPart> corrupted_folders(const std::string& root) {
  std::vector<CorruptedPart> parts;
  for (const std::string& corruption : corruption_names())
    for (int severity = 1; severity <= 5; ++severity) {
      const CorruptedPart part{corruption, severity};
      if (has_folder(root + "/" + part.folder())) parts.push_back(part);
    }
  return parts;
}

void require_part(const char* where, const std::string& path, const CorruptedPart& part) {
  if (part.severity == 0)
    fail(where, path + " holds corrupted pictures to be evaluated on, and no others: give it to eval");
}

}  // namespace pursuit::data
