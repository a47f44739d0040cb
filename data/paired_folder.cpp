#include "data/paired_files.h"
#include "engine/base/error.h"

namespace pursuit::data {
namespace {

namespace fs = std::filesystem;

SegmentationFiles paired_folder(const fs::path& root, Split split, bool skip_bad) {
  constexpr size_t kHeldOut = 10;  // one picture in this many is held out
  const bool held_out = split != Split::train;
  SegmentationFiles files{read_class_file((root / "classes.txt").string()),
                          held_out ? Split::val : Split::train};
  const fs::path images = root / "images", labels = root / "labels";
  if (!list_folder(images.string()).folders.empty()) {
    files.split = existing_split({images, labels}, split);
    const std::string name = choice_name(files.split);
    Pairing(images / name, labels / name, skip_bad).add_all(files);
    return files;
  }
  Pairing(images, labels, skip_bad).add_all(files);
  std::vector<SegmentationFiles::Pair> chosen;
  for (size_t i = 0; i < files.pairs.size(); ++i)
    if ((i % kHeldOut == kHeldOut - 1) == held_out) chosen.push_back(files.pairs[i]);
  if (chosen.empty() && !files.pairs.empty())
    fail("segmentation", images.string() + " has " + std::to_string(files.pairs.size()) +
                             " pictures, and one in " + std::to_string(kHeldOut) +
                             " is held out for evaluation: need at least " + std::to_string(kHeldOut) +
                             ", or folders train and val in images and in labels");
  files.pairs = chosen;
  return files;
}

const SegmentationFormats::Entry registered{
    {.name = "folder",
     .files = "images with labels and classes.txt",
     .find =
         [](const std::string& path) {
           return has_folder(path + "/images") && has_folder(path + "/labels") ? path : "";
         },
     .open = open_paired<paired_folder>}};

}  // namespace
}  // namespace pursuit::data
