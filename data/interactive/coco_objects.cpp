#include <array>
#include <filesystem>

#include "data/files.h"
#include "data/interactive/object_files.h"
#include "data/paired_files.h"
#include "data/png.h"
#include "engine/base/error.h"

namespace pursuit::data {
namespace {

namespace fs = std::filesystem;

constexpr size_t kClasses = 182, kThings = 91;  // the classes 0 to 90 are things
constexpr const char* where = "objects";

// One object for every pair of an instance and a thing's class.
ObjectMap instances_of(const Image& labels, const Image& instances) {
  ObjectMap map{labels.width, labels.height, std::vector<int32_t>(labels.pixels.size())};
  std::vector<std::array<int32_t, kThings>> numbers(256);  // by instance and class; 0: none yet
  int32_t last = 0;
  for (size_t p = 0; p < map.of_pixel.size(); ++p) {
    const size_t label = labels.pixels[p];
    if (label == kIgnoredLabel) map.of_pixel[p] = kNotCounted;
    if (label >= kThings) continue;
    int32_t& number = numbers[instances.pixels[p]][label];
    if (number == 0) number = ++last;
    map.of_pixel[p] = number;
  }
  return map;
}

std::unique_ptr<SegmentationDataset> open_instances(const std::string& path, Split split,
                                                    const ObjectOptions& options) {
  const std::shared_ptr<const SegmentationDataset> set =
      SegmentationFormats::find(where, path, "coco_stuff")
          .format.open(path, split, {.skip_bad = options.skip_bad});
  if (set->classes().size() != kClasses)
    fail(where, path + "/classes.txt names " + std::to_string(set->classes().size()) + " classes, need the " +
                    std::to_string(kClasses) + " of COCO-Stuff, of which the first " +
                    std::to_string(kThings) + " are things");
  const fs::path folder = fs::path(path) / (std::string(choice_name(set->split())) + "_inst");
  require_folder(where, folder.string());
  ObjectPictures pictures{.split = set->split(), .incomplete = set->skipped()};
  std::vector<int64_t> numbers;  // in the set
  for (int64_t i = 0; i < set->size(); ++i) {
    const std::string instances = (folder / fs::path(set->name(i)).stem()).string() + ".png";
    if (!has_file(instances)) {
      if (!options.skip_bad)
        fail(where, set->name(i) + " has no map of instances: need " + instances + ", or skip bad data");
      ++pictures.incomplete;
      continue;
    }
    pictures.pictures.push_back({set->name(i), instances});
    numbers.push_back(i);
  }
  pictures.map = [set, files = pictures.pictures, numbers](int64_t i) {
    const int64_t number = numbers[size_t(i)];
    const std::string& path_of_instances = files[size_t(i)].mask;
    const Image labels = set->labels(number),
                instances = decode_index_png(read_bytes(path_of_instances), path_of_instances);
    check_same_size(labels, set->label_file(number), instances, path_of_instances);
    return instances_of(labels, instances);
  };
  return open_object_pictures(std::move(pictures), path, options);
}

const ObjectFormats::Entry registered{
    {.name = "coco_stuff",
     .files = "train_img with train_label and train_inst",
     .find = [](const std::string& path) { return has_split_folder(path, "_inst") ? path : ""; },
     .open = open_instances}};

}  // namespace
}  // namespace pursuit::data
