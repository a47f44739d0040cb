#include "data/paired_files.h"

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <set>

#include "data/dataset.h"
#include "data/decoded_files.h"
#include "data/jpeg_turbo.h"
#include "data/orientation.h"
#include "engine/base/error.h"
#include "engine/base/text.h"

namespace pursuit::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* where = "segmentation";

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
        decoding_(options.decoding),
        numbers_(samples_in_use(int64_t(files_.pairs.size()), options.first, options.limit)),
        decoded_(
            path, size(), [this](int64_t i) { return load(i); },
            [](const SegmentationSample& s) {
              return int64_t(s.image.pixels.size() + s.labels.pixels.size());
            },
            options.skip_bad, options.cache_bytes) {
    check_decoder(decoding_);
  }

  int64_t size() const override { return int64_t(numbers_.size()); }
  Image labels(int64_t i) const override { return files_.key.read(pair(i).labels); }
  std::string name(int64_t i) const override { return pair(i).image; }
  std::string label_file(int64_t i) const override { return pair(i).labels; }
  Split split() const override { return files_.split; }
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
    SegmentationSample sample{decode_stored(read_bytes(image), image, decoding_), files_.key.read(labels)};
    check_same_size(sample.image, image, sample.labels, labels);
    return sample;
  }

  const SegmentationFiles files_;
  const Decoding decoding_;
  const std::vector<int64_t> numbers_;  // indices of the pairs in use
  DecodedFiles<SegmentationSample> decoded_;
};

// The pictures of a folder, keyed by file name without extension.
std::map<std::string, std::string> pictures_of(const fs::path& folder) {
  std::map<std::string, std::string> pictures;
  for (const std::string& name : list_folder(folder.string()).files) {
    if (!is_image_file(name)) continue;
    const auto [known, added] = pictures.emplace(fs::path(name).stem().string(), (folder / name).string());
    if (!added)
      fail(where,
           (folder / name).string() + " has the same name as " + known->second + ": keep one of the two");
  }
  return pictures;
}

}  // namespace

Image decode_stored(const std::vector<uint8_t>& bytes, const std::string& path, const Decoding& decoding) {
  warn_if_turned(path, orientation(bytes));
  return decode_image(bytes.data(), bytes.size(), path, decoding);
}

void check_same_size(const Image& image, const std::string& image_path, const Image& labels,
                     const std::string& labels_path) {
  if (image.width != labels.width || image.height != labels.height)
    fail(where, labels_path + " has " + size_of(labels) + " pixels, but its picture " + image_path + " has " +
                    size_of(image) + "; both need the same size");
}

Pairing::Pairing(const fs::path& images, const fs::path& labels, bool skip_bad)
    : image_folder_(images.string()),
      label_folder_(labels.string()),
      images_(pictures_of(images)),
      labels_(pictures_of(labels)),
      skip_bad_(skip_bad) {}

void Pairing::add(const std::string& stem, SegmentationFiles& to, const std::string& list) const {
  const auto image = images_.find(stem), labels = labels_.find(stem);
  if (image != images_.end() && labels != labels_.end()) {
    to.pairs.push_back({image->second, labels->second});
  } else if (skip_bad_) {
    ++to.incomplete;
  } else if (image != images_.end()) {
    fail(where,
         image->second + " has no label map: need " + label_folder_ + "/" + stem + ".png, or skip bad data");
  } else if (labels != labels_.end()) {
    fail(where, labels->second + " has no picture: need one of that name in " + image_folder_ +
                    ", or skip bad data");
  } else {
    fail(where, list + " names '" + stem + "', but there is no picture of that name in " + image_folder_ +
                    ": correct the list, or skip bad data");
  }
}

void Pairing::add_all(SegmentationFiles& to) const {
  std::map<std::string, std::string> all = images_;
  all.insert(labels_.begin(), labels_.end());
  for (const auto& [stem, path] : all) add(stem, to);
}

Split existing_split(const std::vector<fs::path>& parents, Split split) {
  const auto exists = [&](Split s) {
    return std::all_of(parents.begin(), parents.end(), [&](const fs::path& parent) {
      return has_folder((parent / choice_name(s)).string());
    });
  };
  const Split other = split == Split::val ? Split::test : Split::val;
  return split != Split::train && !exists(split) && exists(other) ? other : split;
}

bool has_split_folder(const fs::path& path, const std::string& suffix) {
  for (const Choice<Split>& split : choices_of(Split{}))
    if (has_folder((path / (split.name + suffix)).string())) return true;
  return false;
}

std::unique_ptr<SegmentationDataset> open_pairs(SegmentationFiles files, const std::string& path,
                                                const SegmentationOptions& options) {
  if (files.pairs.empty())
    fail(where, path + " holds no picture with a label map for the split " + choice_name(files.split));
  return std::make_unique<PairedFiles>(std::move(files), path, options);
}

}  // namespace pursuit::data
