#include "data/dataset.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <sstream>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "engine/files/atomic_file.h"

namespace pursuit::data {
namespace {

namespace fs = std::filesystem;

// A subset of another data set.
class Subset : public Dataset {
 public:
  Subset(std::unique_ptr<Dataset> whole, std::vector<int64_t> numbers)
      : whole_(std::move(whole)), numbers_(std::move(numbers)) {}
  int64_t size() const override { return int64_t(numbers_.size()); }
  Sample get(int64_t i) const override { return whole_->get(numbers_.at(size_t(i))); }
  int64_t label(int64_t i) const override { return whole_->label(numbers_.at(size_t(i))); }
  std::string name(int64_t i) const override { return whole_->name(numbers_.at(size_t(i))); }
  const std::vector<std::string>& classes() const override { return whole_->classes(); }
  int64_t skipped() const override { return whole_->skipped(); }
  std::vector<int64_t> present_classes() const override { return whole_->present_classes(); }
  std::string test_split() const override { return whole_->test_split(); }

 private:
  const std::unique_ptr<Dataset> whole_;
  const std::vector<int64_t> numbers_;
};

std::string first_few(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < 5; ++i) text += (i ? ", " : "") + names[i];
  if (names.size() > 5) text += ", ...";
  return text.empty() ? "none" : text;
}

bool any_contains(const std::vector<std::string>& names, const std::string& part) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& name) { return name.find(part) != std::string::npos; });
}

struct Layout {
  std::string format, path;
};

// The layout of `path`, or of the subfolder to which the original archives unpack.
Layout detect(const fs::path& path) {
  const Listing top = list_folder(path.string());
  for (const char* inner : {"", "cifar-10-batches-bin", "raw"}) {
    const fs::path folder = *inner ? path / inner : path;
    if (*inner && !std::count(top.folders.begin(), top.folders.end(), inner)) continue;
    const Listing contents = *inner ? list_folder(folder.string()) : top;
    const auto& files = contents.files;
    if (any_contains(files, "idx3-ubyte")) return {"idx", folder.string()};
    if (any_contains(files, "data_batch_") || any_contains(files, "test_batch")) {
      return {"cifar10", folder.string()};
    }
  }
  for (const char* split : {"train", "val", "test"}) {
    if (std::count(top.folders.begin(), top.folders.end(), split)) return {"folder", path.string()};
  }
  for (const std::string& folder : top.folders) {
    const auto files = list_folder((path / folder).string()).files;
    if (std::any_of(files.begin(), files.end(), is_image_file)) return {"folder", path.string()};
  }
  fail("dataset", path.string() + " has no known layout: found " + std::to_string(top.files.size()) +
                      " files (" + first_few(top.files) + ") and " + std::to_string(top.folders.size()) +
                      " folders (" + first_few(top.folders) +
                      "). Understood are train-images-idx3-ubyte[.gz] and its three companions (idx), "
                      "data_batch_*.bin and test_batch*.bin (cifar10), and train/<class>/*.jpg with "
                      "val/<class>/*.jpg (folder). Point at the folder that holds these, or give no path "
                      "for the built-in synthetic set");
}

std::unique_ptr<Dataset> open_whole(const std::string& path, Split split, const DatasetOptions& options) {
  const std::string& format = options.format;
  const bool by_file = !options.train_files.empty() || !options.test_files.empty();
  Layout layout{format, path};
  if (format == "synthetic" && !path.empty())
    fail("dataset",
         "format synthetic is drawn, but the data is to be that of " + path + ": leave out one of the two");
  if (format == "auto" && path.empty()) layout.format = "synthetic";
  if (layout.format != "synthetic") {
    if (path.empty()) fail("dataset", "format " + format + " needs a path: got none");
    require_folder("dataset", path);
    if (format == "auto") layout = detect(path);
  }
  if (by_file && layout.format != "cifar10") {
    fail("dataset",
         "files can be chosen for each split only in a cifar10 folder: got format " + layout.format);
  }
  if (layout.format == "synthetic")
    return open_synthetic(split, options.synthetic_size, options.synthetic_seed);
  if (layout.format == "idx") return open_idx(layout.path, split);
  if (layout.format == "cifar10") return open_cifar10(layout.path, split, options);
  if (layout.format == "folder") return open_image_folder(layout.path, split, options);
  fail("dataset", "unknown format: got " + format + ", need auto, idx, cifar10, folder or synthetic");
}

}  // namespace

std::vector<int64_t> Dataset::present_classes() const {
  std::vector<int64_t> all(classes().size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

Listing list_folder(const std::string& path) {
  Listing listing;
  std::error_code error;
  for (fs::directory_iterator it(path, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name[0] == '.') continue;
    std::error_code ignored;
    (it->is_directory(ignored) ? listing.folders : listing.files).push_back(name);
  }
  if (error) fail("dataset", path + " cannot be read: " + error.message());
  std::sort(listing.files.begin(), listing.files.end());
  std::sort(listing.folders.begin(), listing.folders.end());
  return listing;
}

std::vector<std::string> read_lines(const std::string& path) {
  const InputFile file(path);
  if (file.size() > max_list_bytes)
    fail("dataset", path + " holds " + std::to_string(file.size()) + " bytes, a list at most " +
                        std::to_string(max_list_bytes) + ": check that it is the right file");
  const std::string all = file.read_all();
  std::istringstream text{std::string(without_byte_order_mark(all))};
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!is_utf8(line))
      fail("dataset", path + ": '" + printable(line.substr(0, 200)) + (line.size() > 200 ? "...'" : "'") +
                          " is not UTF-8; convert the file, or rename what it names");
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

bool has_folder(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

void require_folder(const char* where, const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) {
    if (access(path.c_str(), R_OK | X_OK) == 0) return;
    fail(where, path + " cannot be read: " + std::strerror(errno));
  }
  if (fs::exists(status)) fail(where, path + " is not a folder: give the folder that holds the data");
  if (status.type() == fs::file_type::not_found) fail(where, path + " does not exist: check the path");
  fail(where, path + " cannot be looked at: " + error.message());
}

bool is_image_file(const std::string& name) {
  std::string ending = fs::path(name).extension().string();
  for (char& c : ending) c = char(std::tolower(static_cast<unsigned char>(c)));
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

std::vector<int64_t> samples_in_use(int64_t size, int64_t first, int64_t limit) {
  for (const auto& [name, value] : {std::pair{"first", first}, {"limit", limit}})
    if (value < 0)
      fail("dataset",
           std::string(name) + " is negative: got " + std::to_string(value) + ", need 0 (all) or more");
  const int64_t among = first > 0 ? std::min(first, size) : size;
  std::vector<int64_t> numbers(size_t(limit > 0 ? std::min(limit, among) : among));
  // Evenly spaced, so that a data set sorted by class stays balanced.
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = int64_t(i) * among / int64_t(numbers.size());
  return numbers;
}

std::unique_ptr<Dataset> open_dataset(const std::string& path, Split split, const DatasetOptions& options) {
  auto dataset = open_whole(path, split, options);
  std::vector<int64_t> numbers = samples_in_use(dataset->size(), options.first, options.limit);
  if (int64_t(numbers.size()) == dataset->size()) return dataset;
  return std::make_unique<Subset>(std::move(dataset), std::move(numbers));
}

}  // namespace pursuit::data
