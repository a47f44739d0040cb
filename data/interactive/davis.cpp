#include <filesystem>
#include <numeric>
#include <set>

#include "data/files.h"
#include "data/interactive/mask_files.h"
#include "engine/base/error.h"

namespace pursuit::data {
namespace {

namespace fs = std::filesystem;

constexpr const char *image_folder = "JPEGImages/480p", *mask_folder = "Annotations/480p";

std::unique_ptr<SegmentationDataset> open_davis(const std::string& path, Split split,
                                                const ObjectOptions& options) {
  refuse_training(path, split);
  const fs::path images = fs::path(path) / image_folder, masks = fs::path(path) / mask_folder;
  std::set<std::string> sequences;
  for (const fs::path& folder : {images, masks})
    for (const std::string& sequence : list_folder(folder.string()).folders) sequences.insert(sequence);
  ObjectPictures pictures{.split = Split::test};
  for (const std::string& sequence : sequences) {
    const MaskLayout layout{(images / sequence).string(), (masks / sequence).string()};
    const std::string& missing = has_folder(layout.images) ? layout.masks : layout.images;
    if (has_folder(missing)) {
      add_masks(layout, options.skip_bad, pictures);
    } else if (options.skip_bad) {
      ++pictures.incomplete;
    } else {
      fail("objects", missing + " is missing: a sequence needs pictures and masks, or skip bad data");
    }
  }
  for (ObjectPictures::Picture& picture : pictures.pictures) picture.object.clear();
  std::array<int32_t, 256> number_of;
  std::iota(number_of.begin(), number_of.end(), 0);
  pictures.map = [files = pictures.pictures, number_of](int64_t i) {
    return objects_of(read_mask(files[size_t(i)].mask), number_of);
  };
  return open_object_pictures(std::move(pictures), path, options);
}

const ObjectFormats::Entry registered{
    {.name = "davis",
     .files = "JPEGImages/480p with Annotations/480p",
     .find =
         [](const std::string& path) {
           return has_folder(path + "/" + image_folder) && has_folder(path + "/" + mask_folder) ? path : "";
         },
     .open = open_davis}};

}  // namespace
}  // namespace pursuit::data
