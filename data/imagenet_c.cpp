#include "data/dataset.h"

namespace pursuit::data {
namespace {

const DatasetFormats::Entry registered{
    {.name = "imagenet-c",
     .files = "fog/3/<class>/*.jpg and other corruptions and severities",
     .find = [](const std::string& path) { return corrupted_folders(path).empty() ? "" : path; },
     .open =
         [](const std::string& path, Split split, const DatasetOptions& options) {
           return open_corrupted_folder<DatasetFormats, Dataset>("imagenet-c", path, split, options);
         },
     .parts = corrupted_folders}};

}  // namespace
}  // namespace pursuit::data
