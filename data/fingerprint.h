#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.h"
#include "data/segmentation.h"
#include "data/text/source.h"

namespace pursuit::data {

// Identifies a data set without reading its files: a hash, as 16 hexadecimal digits, of the classes and of
// every sample in order: its file's name below `root` and size, and the label if known without decoding; for
// label maps, file name and size. The same files in another folder have the same fingerprint. Not meant to be
// secure against manipulation.
std::string fingerprint(const Dataset& data, const std::string& root);
std::string fingerprint(const SegmentationDataset& data, const std::string& root);
std::string fingerprint(const std::vector<TextFile>& files, const std::string& root);
// The fingerprint of a text itself.
std::string fingerprint(std::string_view text);

}  // namespace pursuit::data
