#include "data/segmentation.h"

#include <algorithm>

#include "data/dataset.h"
#include "data/decoded_files.h"
#include "data/segmentation_files.h"
#include "engine/error.h"

namespace pursuit::data {
namespace {

const std::vector<std::string> kFormats = {"auto", "ade20k", "camvid", "coco_stuff", "folder", "scenes"};

std::string size_of(const Image& image) {
  return std::to_string(image.width) + " x " + std::to_string(image.height);
}

class PairedFiles : public SegmentationDataset {
 public:
  PairedFiles(SegmentationFiles files, const std::string& path, const SegmentationOptions& options)
      : files_(std::move(files)),
        decoded_(
            path, size(), [this](int64_t i) { return load(i); },
            [](const SegmentationSample& s) {
              return int64_t(s.image.pixels.size() + s.labels.pixels.size());
            },
            options.skip_bad, options.cache_bytes) {}

  int64_t size() const override { return int64_t(files_.pairs.size()); }
  std::string name(int64_t i) const override { return files_.pairs.at(size_t(i)).image; }
  const std::vector<std::string>& classes() const override { return files_.key.classes(); }
  const std::vector<Rgb>& colours() const override { return files_.key.colours(); }
  int64_t skipped() const override { return files_.incomplete + decoded_.bad(); }

  SegmentationSample get(int64_t i) const override {
    auto [sample, found] = decoded_.get(i);
    sample.index = found == i ? i : -1;
    return sample;
  }

 private:
  SegmentationSample load(int64_t i) const {
    const SegmentationFiles::Pair& pair = files_.pairs.at(size_t(i));
    SegmentationSample sample{read_image(pair.image), files_.key.read(pair.labels), i};
    if (sample.image.width != sample.labels.width || sample.image.height != sample.labels.height)
      fail("segmentation", pair.labels + " has " + size_of(sample.labels) + " pixels, but its picture " +
                               pair.image + " has " + size_of(sample.image) + "; both need the same size");
    return sample;
  }

  SegmentationFiles files_;
  DecodedFiles<SegmentationSample> decoded_;
};

}  // namespace

std::unique_ptr<SegmentationDataset> open_segmentation(const std::string& path, const std::string& split,
                                                       const SegmentationOptions& options) {
  constexpr const char* where = "segmentation";
  if (split != "train" && split != "val" && split != "test")
    fail(where, "unknown split: got " + split + ", need train, val or test");
  if (options.limit < 0)
    fail(where, "limit is negative: got " + std::to_string(options.limit) + ", need 0 (all) or more");
  if (std::find(kFormats.begin(), kFormats.end(), options.format) == kFormats.end())
    fail(where, "unknown format: got " + options.format +
                    ", need auto, ade20k, camvid, coco_stuff, folder or scenes");
  if (options.format == "scenes" || (options.format == "auto" && path.empty()))
    return open_scenes(split, options.limit);
  if (!has_folder(path))
    fail(where, "format " + options.format + " needs a folder: got '" + path + "', which is none");
  const std::string format = options.format == "auto" ? detect_segmentation(path) : options.format;
  SegmentationFiles files = list_segmentation(format, path, split, options.skip_bad);
  const auto whole = int64_t(files.pairs.size());
  if (options.limit > 0 && options.limit < whole) {
    for (int64_t i = 0; i < options.limit; ++i)
      files.pairs[size_t(i)] = files.pairs[size_t(i * whole / options.limit)];
    files.pairs.resize(size_t(options.limit));
  }
  return std::make_unique<PairedFiles>(std::move(files), path, options);
}

}  // namespace pursuit::data
