#include "data/segmentation.h"

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <set>

#include "data/dataset.h"
#include "data/decoded_files.h"
#include "data/orientation.h"
#include "data/segmentation_files.h"
#include "engine/base/error.h"
#include "engine/base/text.h"

namespace pursuit::data {
namespace {

std::string size_of(const Image& image) {
  return std::to_string(image.width) + " x " + std::to_string(image.height);
}

// Pictures are used as stored, without EXIF rotation, as published loaders do. Label maps drawn over the
// rotated picture do not fit then. Warns once per file.
void warn_if_turned(const std::string& path, int orientation) {
  static std::mutex mutex;
  static std::set<std::string> named;
  if (orientation == 1) return;
  const std::lock_guard lock(mutex);
  if (!named.insert(path).second) return;
  const std::string line = "warning: " + path + " is to be shown turned (EXIF orientation " +
                           std::to_string(orientation) +
                           "); its pixels are used as they are stored, see whether the label map is of these";
  std::fputs((printable(line) + "\n").c_str(), stderr);
}

class PairedFiles : public SegmentationDataset {
 public:
  PairedFiles(SegmentationFiles files, const std::string& path, const SegmentationOptions& options)
      : files_(std::move(files)),
        numbers_(samples_in_use(int64_t(files_.pairs.size()), options.first, options.limit)),
        decoded_(
            path, size(), [this](int64_t i) { return load(i); },
            [](const SegmentationSample& s) {
              return int64_t(s.image.pixels.size() + s.labels.pixels.size());
            },
            options.skip_bad, options.cache_bytes) {}

  int64_t size() const override { return int64_t(numbers_.size()); }
  std::string name(int64_t i) const override { return pair(i).image; }
  std::string label_file(int64_t i) const override { return pair(i).labels; }
  std::string split() const override { return files_.split; }
  const std::vector<std::string>& classes() const override { return files_.key.classes(); }
  const std::vector<Rgb>& colours() const override { return files_.key.colours(); }
  int64_t skipped() const override { return files_.incomplete + decoded_.bad(); }

  SegmentationSample get(int64_t i) const override {
    auto [sample, found] = decoded_.get(i);
    sample.index = found == i ? numbers_[size_t(i)] : -1;
    return sample;
  }

 private:
  const SegmentationFiles::Pair& pair(int64_t i) const {
    return files_.pairs[size_t(numbers_.at(size_t(i)))];
  }

  SegmentationSample load(int64_t i) const {
    const auto& [image, labels] = pair(i);
    const std::vector<uint8_t> bytes = read_bytes(image);
    warn_if_turned(image, orientation(bytes));
    SegmentationSample sample{decode_image(bytes.data(), bytes.size(), image), files_.key.read(labels)};
    if (sample.image.width != sample.labels.width || sample.image.height != sample.labels.height)
      fail("segmentation", labels + " has " + size_of(sample.labels) + " pixels, but its picture " + image +
                               " has " + size_of(sample.image) + "; both need the same size");
    return sample;
  }

  const SegmentationFiles files_;
  const std::vector<int64_t> numbers_;  // indices of the pairs in use
  DecodedFiles<SegmentationSample> decoded_;
};

}  // namespace

std::unique_ptr<SegmentationDataset> open_segmentation(const std::string& path, const std::string& split,
                                                       const SegmentationOptions& options) {
  constexpr const char* where = "segmentation";
  if (split != "train" && split != "val" && split != "test")
    fail(where, "unknown split: got " + split + ", need train, val or test");
  if (std::find(segmentation_formats.begin(), segmentation_formats.end(), options.format) ==
      segmentation_formats.end())
    fail(where, "unknown format: got " + options.format +
                    ", need auto, ade20k, camvid, coco_stuff, folder or scenes");
  if (options.format == "scenes" && !path.empty())
    fail(where,
         "format scenes is drawn, but the data is to be that of " + path + ": leave out one of the two");
  if (options.format == "scenes" || (options.format == "auto" && path.empty())) {
    const int64_t all = open_scenes(split)->size();
    return open_scenes(split, int64_t(samples_in_use(all, options.first, options.limit).size()));
  }
  if (path.empty()) fail(where, "format " + options.format + " needs a path: got none");
  require_folder(where, path);
  const std::string format = options.format == "auto" ? detect_segmentation(path) : options.format;
  return std::make_unique<PairedFiles>(list_segmentation(format, path, split, options.skip_bad), path,
                                       options);
}

}  // namespace pursuit::data
