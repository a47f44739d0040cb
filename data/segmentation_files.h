#pragma once
#include "data/segmentation.h"

namespace pursuit::data {

// The files of one split, for any layout.
struct SegmentationFiles {
  struct Pair {
    std::string image, labels;  // paths
  };
  std::vector<Pair> pairs;
  LabelKey key;
  std::string split;       // the split they belong to: train, val or test
  int64_t incomplete = 0;  // images and label maps left out because the other is missing
};

// Returns the folder's layout: ade20k, camvid, coco_stuff or folder. Throws if it fits none.
std::string detect_segmentation(const std::string& path);

// The files of a split (train, val or test); val and test stand in for each other if one is missing. Throws
// if a partner is missing (without skip_bad) or the split is empty.
SegmentationFiles list_segmentation(const std::string& format, const std::string& path,
                                    const std::string& split, bool skip_bad);

}  // namespace pursuit::data
