#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/interactive/objects.h"

// Sets of objects whose pictures and masks are files.
namespace pursuit::data {

constexpr int32_t kNotCounted = -1;

// The objects of one picture: the number of every pixel's object, 0 where there is none, or kNotCounted.
struct ObjectMap {
  int width = 0, height = 0;
  std::vector<int32_t> of_pixel;  // [height * width]
};

// The pictures of one split.
struct ObjectPictures {
  struct Picture {
    std::string image, mask;  // paths
    std::string object = {};  // the name of its only object; empty: its objects are numbered
  };
  std::vector<Picture> pictures = {};
  Split split;  // to which they belong
  // The objects of a picture by its index; throws Error. Called by several threads.
  std::function<ObjectMap(int64_t)> map = {};
  int64_t most_a_picture = 0;  // objects, the largest; 0: all
  int64_t incomplete = 0;      // pictures and masks left out because the other is missing
};

// All pictures of a segmentation set, and as their masks its label maps.
ObjectPictures pictures_of(const SegmentationDataset& set);

// The data set of the objects in these pictures. Reads all masks; throws Error if there is no object.
std::unique_ptr<SegmentationDataset> open_object_pictures(ObjectPictures pictures, const std::string& path,
                                                          const ObjectOptions& options);

// The classes and colours of every set of objects.
const LabelKey& object_key();

}  // namespace pursuit::data
