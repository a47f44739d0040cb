#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "data/dataset.h"
#include "engine/base/error.h"
#include "engine/files/atomic_file.h"

namespace pursuit::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSide = 32, kPlane = kSide * kSide, kRecord = 1 + 3 * kPlane;

class Cifar10 : public Dataset {
 public:
  Cifar10(const fs::path& folder, const std::vector<std::string>& files) : classes_(read_classes(folder)) {
    for (const std::string& file : files) append(folder / file);
  }

  int64_t size() const override { return int64_t(records_.size()) / kRecord; }
  int64_t label(int64_t i) const override { return records_.at(size_t(i * kRecord)); }
  const std::vector<std::string>& classes() const override { return classes_; }

  std::string name(int64_t i) const override {
    const auto part = std::upper_bound(parts_.begin(), parts_.end(), i,
                                       [](int64_t number, const Part& p) { return number < p.first; }) -
                      1;
    return part->file + "#" + std::to_string(i - part->first);
  }

  Sample get(int64_t i) const override {
    Sample sample{Image(kSide, kSide, 3), label(i), i};
    const uint8_t* planes = &records_[size_t(i * kRecord + 1)];
    uint8_t* pixel = sample.image.pixels.data();
    for (int64_t p = 0; p < kPlane; ++p) {
      for (int64_t c = 0; c < 3; ++c) *pixel++ = planes[c * kPlane + p];
    }
    return sample;
  }

 private:
  struct Part {
    std::string file;
    int64_t first;
  };

  void append(const fs::path& path) {
    const InputFile file(path.string());
    const int64_t bytes = int64_t(file.size());
    if (bytes == 0) fail("cifar10", path.string() + " is empty");
    if (const int64_t over = bytes % kRecord; over != 0) {
      fail("cifar10", path.string() + " is damaged: got " + std::to_string(bytes) +
                          " bytes, need a multiple of " + std::to_string(kRecord) + " (" +
                          std::to_string(over) + " too many or " + std::to_string(kRecord - over) +
                          " missing); fetch the file again");
    }
    const int64_t first = size(), count = bytes / kRecord;
    records_.resize(size_t((first + count) * kRecord));
    file.read(0, &records_[size_t(first * kRecord)], file.size());
    parts_.push_back({path.filename().string(), first});
    for (int64_t i = first; i < first + count; ++i) {
      if (label(i) >= int64_t(classes_.size())) {
        fail("cifar10", path.string() + ": record " + std::to_string(i - first) + " has label " +
                            std::to_string(label(i)) + ", need 0 to 9; is this CIFAR-10's binary version?");
      }
    }
  }

  static std::vector<std::string> read_classes(const fs::path& folder) {
    const fs::path path = folder / "batches.meta.txt";
    if (!fs::exists(path)) return cifar10_classes();
    std::vector<std::string> classes = read_lines(path.string());
    if (classes.size() != 10) {
      fail("cifar10", path.string() + " holds " + std::to_string(classes.size()) + " class names, need 10");
    }
    return classes;
  }

  std::vector<std::string> classes_;
  std::vector<Part> parts_;
  std::vector<uint8_t> records_;
};

// Throws if a file is chosen twice: it would count twice, or be trained and tested on.
void check_chosen(Split split, const DatasetOptions& options) {
  std::map<std::string, std::string> chosen;
  for (const auto& [option, files] :
       {std::pair{"--test-files", &options.test_files}, {"--train-files", &options.train_files}}) {
    for (const std::string& name : *files)
      if (const auto [first, added] = chosen.emplace(fs::path(name).lexically_normal().string(), option);
          !added)
        fail("cifar10", std::string(option) + ": " + name + " is in " + first->second +
                            " already; give each file once, to train or to test on");
    if (split != Split::train) return;  // a trained model may be evaluated on its training files
  }
}

std::vector<std::string> matching(const std::string& folder, const std::string& prefix) {
  std::vector<std::string> files;
  for (const std::string& name : list_folder(folder).files) {
    if (name.starts_with(prefix) && name.ends_with(".bin")) files.push_back(name);
  }
  return files;
}

}  // namespace

const std::vector<std::string>& cifar10_classes() {
  static const std::vector<std::string> names = {"airplane", "automobile", "bird",  "cat",  "deer",
                                                 "dog",      "frog",       "horse", "ship", "truck"};
  return names;
}

std::unique_ptr<Dataset> open_cifar10(const std::string& path, Split split, const DatasetOptions& options) {
  check_chosen(split, options);
  const bool train = split == Split::train;
  const auto& wanted = train ? options.train_files : options.test_files;
  const auto& held_out = train ? options.test_files : options.train_files;
  if (!wanted.empty()) return std::make_unique<Cifar10>(path, wanted);
  const std::string prefix = train ? "data_batch_" : "test_batch";
  std::vector<std::string> files = matching(path, prefix);
  std::erase_if(files, [&](const std::string& name) {
    return std::any_of(held_out.begin(), held_out.end(),
                       [&](const std::string& other) { return fs::path(other).lexically_normal() == name; });
  });
  if (files.empty()) {
    fail("cifar10", path + " holds no " + prefix + "*.bin" +
                        (held_out.empty() ? "" : " beyond the chosen files") +
                        ": need CIFAR-10's binary version");
  }
  return std::make_unique<Cifar10>(path, files);
}

namespace {

const DatasetFormats::Entry registered{
    {.name = "cifar10",
     .files = "data_batch_*.bin and test_batch*.bin",
     .find =
         [](const std::string& path) {
           return folder_with(path, "cifar-10-batches-bin", {"data_batch_", "test_batch"});
         },
     .open = open_cifar10}};

}  // namespace

}  // namespace pursuit::data
