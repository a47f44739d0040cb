#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data/segmentation.h"

// Segmentation data kept as two files a sample: a picture and a label map with the same stem.
namespace pursuit::data {

// The files of one split.
struct SegmentationFiles {
  struct Pair {
    std::string image, labels;  // paths
  };
  LabelKey key;
  Split split;  // to which they belong
  std::vector<Pair> pairs = {};
  int64_t incomplete = 0;  // images and label maps left out because the other is missing
};

// Pairs pictures and label maps of two folders. Without skip_bad a missing partner is an Error.
class Pairing {
 public:
  Pairing(const std::filesystem::path& images, const std::filesystem::path& labels, bool skip_bad);

  // `list`: the file that names the stem, for the message.
  void add(const std::string& stem, SegmentationFiles& to, const std::string& list = "") const;
  void add_all(SegmentationFiles& to) const;  // sorted by stem

 private:
  std::string image_folder_, label_folder_;
  std::map<std::string, std::string> images_, labels_;  // paths by stem
  bool skip_bad_;
};

// The split itself or, of val and test, the one for which every parent has a folder; the split if none has.
Split existing_split(const std::vector<std::filesystem::path>& parents, Split split);

// Whether a folder exists below the path for one of the splits: train + suffix, ...
bool has_split_folder(const std::filesystem::path& path, const std::string& suffix);

// A picture's pixels as they are stored, not turned as its EXIF data says; a warning on stderr names such a
// file, once.
Image decode_stored(const std::vector<uint8_t>& bytes, const std::string& path, const Decoding& decoding);

// Throws Error that names both files unless the label map has the size of its picture.
void check_same_size(const Image& image, const std::string& image_path, const Image& labels,
                     const std::string& labels_path);

// The data set of these files; throws Error if there are none.
std::unique_ptr<SegmentationDataset> open_pairs(SegmentationFiles files, const std::string& path,
                                                const SegmentationOptions& options);

// Format::open of a format whose files are paired: `list` names those of a split.
template <SegmentationFiles (*list)(const std::filesystem::path& folder, Split split, bool skip_bad)>
std::unique_ptr<SegmentationDataset> open_paired(const std::string& path, Split split,
                                                 const SegmentationOptions& options) {
  return open_pairs(list(path, split, options.skip_bad), path, options);
}

}  // namespace pursuit::data
