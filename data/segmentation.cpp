#include "data/segmentation.h"

namespace pursuit::data {

std::unique_ptr<SegmentationDataset> open_segmentation(const std::string& path, Split split,
                                                       const SegmentationOptions& options) {
  const SegmentationFormats::Found found = SegmentationFormats::find("segmentation", path, options.format);
  return found.format.open(found.folder, split, options);
}

}  // namespace pursuit::data
