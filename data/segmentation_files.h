#pragma once
#include "data/segmentation.h"

namespace pursuit::data {

// A split of a set of files, of whatever layout.
struct SegmentationFiles {
  struct Pair {
    std::string image, labels;  // paths
  };
  std::vector<Pair> pairs;
  LabelKey key;
  std::string split;       // train, val or test: the one that these are of
  int64_t incomplete = 0;  // pictures and label maps left out for want of the other
};

// Looks at the folder and returns ade20k, camvid, coco_stuff or folder. Throws if it fits none.
std::string detect_segmentation(const std::string& path);

// The files of a split, which is train, val or test; where there is only one of the last two, that one.
// Throws if a partner is missing (without skip_bad) or the split holds nothing.
SegmentationFiles list_segmentation(const std::string& format, const std::string& path,
                                    const std::string& split, bool skip_bad);

}  // namespace pursuit::data
