#include "data/segmentation_files.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>

#include "data/dataset.h"
#include "engine/base/error.h"

namespace pursuit::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* where = "segmentation";

using Pairs = std::vector<SegmentationFiles::Pair>;

bool has_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

// The pictures of a folder, keyed by file name without extension.
std::map<std::string, std::string> pictures_of(const fs::path& folder) {
  std::map<std::string, std::string> pictures;
  for (const std::string& name : list_folder(folder.string()).files) {
    if (!is_image_file(name)) continue;
    const auto [known, added] = pictures.emplace(fs::path(name).stem().string(), (folder / name).string());
    if (!added)
      fail(where,
           (folder / name).string() + " has the same name as " + known->second + ": keep one of the two");
  }
  return pictures;
}

// Pairs pictures and label maps with the same stem: those in `stems`, in that order, or all.
class Pairing {
 public:
  Pairing(const fs::path& images, const fs::path& labels, bool skip_bad)
      : image_folder_(images.string()),
        label_folder_(labels.string()),
        images_(pictures_of(images)),
        labels_(pictures_of(labels)),
        skip_bad_(skip_bad) {}

  void add(const std::string& stem, SegmentationFiles& to) const {
    const auto image = images_.find(stem), labels = labels_.find(stem);
    if (image != images_.end() && labels != labels_.end()) {
      to.pairs.push_back({image->second, labels->second});
    } else if (skip_bad_) {
      ++to.incomplete;
    } else if (image != images_.end()) {
      fail(where, image->second + " has no label map: need " + label_folder_ + "/" + stem +
                      ".png, or skip bad data");
    } else {
      fail(where, stem + ": need a picture of that name in " + image_folder_ + ", or skip bad data");
    }
  }

  void add_all(SegmentationFiles& to) const {
    std::map<std::string, std::string> all = images_;
    all.insert(labels_.begin(), labels_.end());
    for (const auto& [stem, path] : all) add(stem, to);
  }

 private:
  std::string image_folder_, label_folder_;
  std::map<std::string, std::string> images_, labels_;
  bool skip_bad_;
};

// The first name that is a folder in every parent, or the last name.
std::string split_folder(const std::vector<fs::path>& parents, const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (std::all_of(parents.begin(), parents.end(), [&](const fs::path& p) { return has_folder(p / name); }))
      return name;
  return names.back();
}

// Folder names of a split, in order of preference.
std::vector<std::string> split_names(const std::string& split) {
  if (split == "train") return {"train"};
  if (split == "val") return {"val", "test"};
  return {"test", "val"};
}

SegmentationFiles ade20k(const fs::path& root, const std::string& split, bool skip_bad) {
  std::vector<LabelKey::Entry> entries{{"ignore", {}}};
  const std::string path = (root / "objectInfo150.txt").string();
  const std::vector<std::string> lines = read_lines(path);
  for (size_t i = 1; i < lines.size(); ++i) {  // skips the header
    std::vector<std::string> columns;
    std::istringstream line(lines[i]);
    for (std::string column; std::getline(line, column, '\t');) columns.push_back(column);
    // Some numbers in the official file are followed by a blank.
    if (columns.size() < 5 || columns[0].substr(0, columns[0].find(' ')) != std::to_string(i))
      fail(where, path + " line " + std::to_string(i + 1) + ": need the class number " + std::to_string(i) +
                      " and its name as the first and fifth of columns divided by tabs");
    entries.push_back({columns[4], {}});
  }
  SegmentationFiles files{{}, LabelKey(entries, path), split == "train" ? "train" : "val"};
  const std::string folder = split == "train" ? "training" : "validation";
  Pairing(root / "images" / folder, root / "annotations" / folder, skip_bad).add_all(files);
  return files;
}

SegmentationFiles camvid(const fs::path& root, const std::string& split, bool skip_bad) {
  const LabelKey key({{"sky", Rgb{128, 128, 128}},
                      {"building", Rgb{128, 0, 0}},
                      {"pole", Rgb{192, 192, 128}},
                      {"road", Rgb{128, 64, 128}},
                      {"pavement", Rgb{60, 40, 222}},
                      {"tree", Rgb{128, 128, 0}},
                      {"sign symbol", Rgb{192, 128, 128}},
                      {"fence", Rgb{64, 64, 128}},
                      {"car", Rgb{64, 0, 128}},
                      {"pedestrian", Rgb{64, 64, 0}},
                      {"bicyclist", Rgb{0, 128, 192}},
                      {"ignore", Rgb{0, 0, 0}}},
                     "camvid");
  const std::string folder = split_folder({root}, split_names(split));
  SegmentationFiles files{{}, key, folder};
  const Pairing pairing(root / folder, root / (folder + "annot"), skip_bad);
  const fs::path list = root / (folder + ".txt");
  if (!has_file(list)) {
    pairing.add_all(files);
    return files;
  }
  for (const std::string& line : read_lines(list.string()))
    pairing.add(fs::path(line.substr(0, line.find_first_of(" \t"))).stem().string(), files);
  return files;
}

SegmentationFiles coco_stuff(const fs::path& root, const std::string& split, bool skip_bad) {
  constexpr int kClasses = 182;
  const auto key = [&] {
    const fs::path names = root / "classes.txt";
    if (has_file(names)) return read_class_file(names.string());
    std::vector<LabelKey::Entry> entries;
    for (int i = 0; i < kClasses; ++i) entries.push_back({std::to_string(i), {}});
    return LabelKey(entries, "coco_stuff");
  };
  const std::string name = split == "train" ? "train" : "val";
  SegmentationFiles files{{}, key(), name};
  Pairing(root / (name + "_img"), root / (name + "_label"), skip_bad).add_all(files);
  return files;
}

SegmentationFiles folder(const fs::path& root, const std::string& split, bool skip_bad) {
  constexpr size_t kHeldOut = 10;  // one picture in this many is held out
  SegmentationFiles files{
      {}, read_class_file((root / "classes.txt").string()), split == "train" ? "train" : "val"};
  const fs::path images = root / "images", labels = root / "labels";
  if (!list_folder(images.string()).folders.empty()) {
    files.split = split_folder({images, labels}, split_names(split));
    Pairing(images / files.split, labels / files.split, skip_bad).add_all(files);
    return files;
  }
  Pairing(images, labels, skip_bad).add_all(files);
  Pairs chosen;
  for (size_t i = 0; i < files.pairs.size(); ++i)
    if ((i % kHeldOut == kHeldOut - 1) == (split != "train")) chosen.push_back(files.pairs[i]);
  files.pairs = chosen;
  return files;
}

}  // namespace

std::string detect_segmentation(const std::string& path) {
  const fs::path root(path);
  if (has_folder(root / "images") && has_folder(root / "annotations")) return "ade20k";
  for (const char* split : {"train", "val", "test"})
    if (has_folder(root / (std::string(split) + "annot"))) return "camvid";
  for (const char* split : {"train", "val"})
    if (has_folder(root / (std::string(split) + "_label"))) return "coco_stuff";
  if (has_folder(root / "images") && has_folder(root / "labels")) return "folder";
  fail(where,
       path +
           " has no known layout. Understood are images/training with annotations/training (ade20k), "
           "train with trainannot (camvid), train_img with train_label (coco_stuff), and images with "
           "labels and classes.txt (folder). Point at the folder that holds these, or give no path for "
           "the drawn scenes");
}

SegmentationFiles list_segmentation(const std::string& format, const std::string& path,
                                    const std::string& split, bool skip_bad) {
  SegmentationFiles files = format == "ade20k"       ? ade20k(path, split, skip_bad)
                            : format == "camvid"     ? camvid(path, split, skip_bad)
                            : format == "coco_stuff" ? coco_stuff(path, split, skip_bad)
                                                     : folder(path, split, skip_bad);
  if (files.pairs.empty())
    fail(where, path + " holds no picture with a label map for the split " + files.split);
  return files;
}

}  // namespace pursuit::data
