#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.h"
#include "data/segmentation.h"
#include "data/text/source.h"

namespace pursuit::data {

// Tells data apart without reading what is in its files: a hash, 16 hexadecimal digits, of the classes and of
// every sample in order: the name of its file below `root`, the file's size and, where the set knows it
// without decoding, the label; of a label map, its file's name and size. The same files in another folder
// have the same fingerprint. Not meant against deceit.
std::string fingerprint(const Dataset& data, const std::string& root);
std::string fingerprint(const SegmentationDataset& data, const std::string& root);
std::string fingerprint(const std::vector<TextFile>& files, const std::string& root);
// Of a text itself.
std::string fingerprint(std::string_view text);

}  // namespace pursuit::data
