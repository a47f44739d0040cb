#include <sstream>

#include "data/paired_files.h"
#include "engine/base/error.h"

namespace pursuit::data {
namespace {

namespace fs = std::filesystem;

SegmentationFiles ade20k(const fs::path& root, Split split, bool skip_bad) {
  const bool held_out = split != Split::train;
  std::vector<LabelKey::Entry> entries{{"ignore", {}}};
  const std::string path = (root / "objectInfo150.txt").string();
  const std::vector<std::string> lines = read_lines(path);
  for (size_t i = 1; i < lines.size(); ++i) {  // skips the header
    std::vector<std::string> columns;
    std::istringstream line(lines[i]);
    for (std::string column; std::getline(line, column, '\t');) columns.push_back(column);
    // Some numbers in the official file are followed by a blank.
    if (columns.size() < 5 || columns[0].substr(0, columns[0].find(' ')) != std::to_string(i))
      fail("ade20k", path + " line " + std::to_string(i + 1) + ": need the class number " +
                         std::to_string(i) +
                         " and its name as the first and fifth of columns divided by tabs");
    entries.push_back({columns[4], {}});
  }
  SegmentationFiles files{LabelKey(entries, path), held_out ? Split::val : Split::train};
  const std::string folder = held_out ? "validation" : "training";
  Pairing(root / "images" / folder, root / "annotations" / folder, skip_bad).add_all(files);
  return files;
}

const SegmentationFormats::Entry registered{
    {.name = "ade20k",
     .files = "images/training with annotations/training",
     .find =
         [](const std::string& path) {
           return has_folder(path + "/images") && has_folder(path + "/annotations") ? path : "";
         },
     .open = open_paired<ade20k>}};

}  // namespace
}  // namespace pursuit::data
