#include <algorithm>
#include <filesystem>
#include <optional>

#include "data/files.h"
#include "data/interactive/mask_files.h"
#include "engine/base/error.h"

namespace pursuit::data {
namespace {

namespace fs = std::filesystem;

std::optional<MaskLayout> layout_of(const std::string& path) {
  for (const auto& [images, masks] :
       {std::pair{"images", "masks"}, {"img", "gt"}, {"data_GT", "boundary_GT"}}) {
    const MaskLayout layout{path + "/" + images, path + "/" + masks};
    if (has_folder(layout.images) && has_folder(layout.masks)) return layout;
  }
  const MaskLayout beside{path, path, "_in", "_gt"};
  const std::vector<std::string> files = list_folder(path).files;
  const auto holds = [&](const std::string& ending) {
    return std::any_of(files.begin(), files.end(), [&](const std::string& name) {
      return fs::path(name).stem().string().ends_with(ending);
    });
  };
  if (holds(beside.image_ending) && holds(beside.mask_ending)) return beside;
  return {};
}

std::unique_ptr<SegmentationDataset> open_masks(const std::string& path, Split split,
                                                const ObjectOptions& options) {
  refuse_training(path, split);
  const std::optional<MaskLayout> layout = layout_of(path);
  if (!layout) fail("objects", path + " has no pictures with masks: found " + contents_of(path));
  ObjectPictures pictures{.split = Split::test};
  add_masks(*layout, options.skip_bad, pictures);
  std::array<int32_t, 256> number_of;
  number_of.fill(1);
  number_of[0] = 0;
  number_of[128] = kNotCounted;  // the band along the border in GrabCut's masks
  pictures.map = [files = pictures.pictures, number_of](int64_t i) {
    return objects_of(read_mask(files[size_t(i)].mask), number_of);
  };
  return open_object_pictures(std::move(pictures), path, options);
}

const ObjectFormats::Entry registered{
    {.name = "masks",
     .files = "images with masks, img with gt, data_GT with boundary_GT, or NAME_in.png with NAME_gt.png",
     .find = [](const std::string& path) { return layout_of(path) ? path : ""; },
     .open = open_masks}};

}  // namespace
}  // namespace pursuit::data
