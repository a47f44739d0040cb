#include "data/segmentation.h"

namespace pursuit::data {
namespace {

const SegmentationFormats::Entry registered{
    {.name = "corrupted",
     .files = "fog/3 and other corruptions and severities, each with the files of another format",
     .find = [](const std::string& path) { return corrupted_folders(path).empty() ? "" : path; },
     .open =
         [](const std::string& path, Split split, const SegmentationOptions& options) {
           return open_corrupted_folder<SegmentationFormats, SegmentationDataset>("segmentation", path, split,
                                                                                  options);
         },
     .parts = corrupted_folders}};

}  // namespace
}  // namespace pursuit::data
