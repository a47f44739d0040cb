#include <algorithm>
#include <filesystem>

#include "data/corruptions.h"
#include "data/dataset.h"
#include "data/npy.h"

namespace pursuit::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* where = "cifar10-c";
constexpr int severities = 5;  // one after another in every file

class Cifar10C : public Dataset {
 public:
  Cifar10C(const fs::path& folder, const CorruptedPart& part) : file_(part.corruption + ".npy") {
    const std::string path = (folder / file_).string(), label_path = (folder / "labels.npy").string();
    const NpyFile pictures(path);
    const Tensor labels = load_npy(label_path);
    const Shape& shape = pictures.shape();
    if (pictures.dtype() != DType::u8 || shape.size() != 4 || shape[3] != 3 || shape[0] == 0 ||
        shape[0] % severities != 0 || shape[1] < 1 || shape[2] < 1)
      fail(where, path + " holds " + name_of(pictures.dtype()) + shape.str() +
                      ", need u8 [5 N, height, width, 3]: the N pictures at severity 1 to 5");
    if (is_floating(labels.dtype()) || labels.shape() != Shape{shape[0]})
      fail(where, label_path + " holds " + labels.str() + ", need integers [" + std::to_string(shape[0]) +
                      "], one for every picture of " + file_);
    size_ = shape[0] / severities;
    height_ = int(shape[1]);
    width_ = int(shape[2]);
    const int64_t first = size_ * (part.severity - 1);
    for (const double label : labels.slice(0, first, first + size_).to_vector()) {
      if (label < 0 || label >= double(cifar10_classes().size()))
        fail(where, label_path + " holds the label " + std::to_string(int64_t(label)) + ", need 0 to 9");
      labels_.push_back(int64_t(label));
    }
    pixels_ = pictures.rows(first, first + size_);
  }

  int64_t size() const override { return size_; }
  int64_t label(int64_t i) const override { return labels_.at(size_t(i)); }
  const std::vector<std::string>& classes() const override { return cifar10_classes(); }
  std::string name(int64_t i) const override { return file_ + "#" + std::to_string(i); }
  std::string test_split() const override { return ""; }

  Sample get(int64_t i) const override {
    Sample sample{Image(width_, height_, 3), label(i), i};
    std::copy_n(pixels_.data<uint8_t>() + i * bytes(), bytes(), sample.image.pixels.begin());
    return sample;
  }

 private:
  int64_t bytes() const { return int64_t(height_) * width_ * 3; }

  const std::string file_;
  int64_t size_ = 0;
  int height_ = 0, width_ = 0;
  std::vector<int64_t> labels_;
  Tensor pixels_;  // u8 [size_, height_, width_, 3]
};

std::vector<CorruptedPart> parts_of(const std::string& folder) {
  std::vector<CorruptedPart> parts;
  for (const std::string& corruption : corruption_names())
    for (int severity = 1; severity <= severities; ++severity)
      if (has_file(folder + "/" + corruption + ".npy")) parts.push_back({corruption, severity});
  return parts;
}

const DatasetFormats::Entry registered{
    {.name = "cifar10-c",
     .files = "fog.npy and other corruptions with labels.npy",
     .find =
         [](const std::string& path) {
           const std::string folder = folder_with(path, "CIFAR-10-C", {"labels.npy"});
           return folder.empty() || parts_of(folder).empty() ? "" : folder;
         },
     .open = [](const std::string& path, Split, const DatasetOptions& options) -> std::unique_ptr<Dataset> {
       require_part(where, path, options.part);
       return std::make_unique<Cifar10C>(path, options.part);
     },
     .parts = parts_of}};

}  // namespace
}  // namespace pursuit::data
