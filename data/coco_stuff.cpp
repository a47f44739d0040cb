#include "data/paired_files.h"

namespace pursuit::data {
namespace {

namespace fs = std::filesystem;

SegmentationFiles coco_stuff(const fs::path& root, Split split, bool skip_bad) {
  constexpr int kClasses = 182;
  const auto key = [&] {
    const fs::path names = root / "classes.txt";
    if (has_file(names.string())) return read_class_file(names.string());
    std::vector<LabelKey::Entry> entries;
    for (int i = 0; i < kClasses; ++i) entries.push_back({std::to_string(i), {}});
    return LabelKey(entries, "coco_stuff");
  };
  SegmentationFiles files{key(), split == Split::train ? Split::train : Split::val};
  const std::string name = choice_name(files.split);
  Pairing(root / (name + "_img"), root / (name + "_label"), skip_bad).add_all(files);
  return files;
}

const SegmentationFormats::Entry registered{
    {.name = "coco_stuff",
     .files = "train_img with train_label",
     .find = [](const std::string& path) { return has_split_folder(path, "_label") ? path : ""; },
     .open = open_paired<coco_stuff>}};

}  // namespace
}  // namespace pursuit::data
