#include "data/interactive/distance.h"
#include "data/interactive/object_files.h"

namespace pursuit::data {
namespace {

ObjectMap components_of(const Image& labels) {
  ObjectMap map{labels.width, labels.height, components(labels, kIgnoredLabel).of_pixel};
  for (int32_t& number : map.of_pixel) number = number < 0 ? kNotCounted : number + 1;
  return map;
}

// Components of the label maps of a segmentation format.
template <const char* name> std::string find(const std::string& path) {
  return SegmentationFormats::find("objects", path, name).format.find(path);
}

template <const char* name> std::unique_ptr<SegmentationDataset> open(const std::string& path, Split split,
                                                                      const ObjectOptions& options) {
  const SegmentationFormats::Found found = SegmentationFormats::find("objects", path, name);
  const std::shared_ptr<const SegmentationDataset> set =
      found.format.open(path, split, {.skip_bad = options.skip_bad});
  ObjectPictures pictures = pictures_of(*set);
  pictures.map = [set](int64_t i) { return components_of(set->labels(i)); };
  pictures.most_a_picture = options.most_a_picture;
  return open_object_pictures(std::move(pictures), path, options);
}

template <const char* name> ObjectFormats::Format format(const char* files) {
  return {.name = name, .files = files, .find = find<name>, .open = open<name>};
}

constexpr char camvid[] = "camvid", ade20k[] = "ade20k", folder[] = "folder";
const ObjectFormats::Entry registered[] = {format<camvid>("train with trainannot"),
                                           format<ade20k>("images/training with annotations/training"),
                                           format<folder>("images with labels and classes.txt")};

}  // namespace
}  // namespace pursuit::data
