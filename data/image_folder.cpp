#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>

#include "data/dataset.h"
#include "engine/error.h"

namespace pursuit::data {
namespace {

namespace fs = std::filesystem;

// Decoded pictures kept until a byte budget is used up.
class ImageCache {
 public:
  explicit ImageCache(int64_t budget) : budget_(budget) {}

  std::shared_ptr<const Image> find(int64_t i) const {
    const std::lock_guard lock(mutex_);
    const auto it = images_.find(i);
    return it == images_.end() ? nullptr : it->second;
  }

  void keep(int64_t i, const Image& image) {
    const int64_t bytes = int64_t(image.pixels.size());
    {
      const std::lock_guard lock(mutex_);
      if (bytes > budget_ - used_ || images_.count(i)) return;
      used_ += bytes;
    }
    auto copy = std::make_shared<const Image>(image);
    const std::lock_guard lock(mutex_);
    if (!images_.emplace(i, std::move(copy)).second) used_ -= bytes;
  }

 private:
  const int64_t budget_;
  mutable std::mutex mutex_;
  int64_t used_ = 0;
  std::map<int64_t, std::shared_ptr<const Image>> images_;
};

class ImageFolder : public Dataset {
 public:
  ImageFolder(const std::string& root, std::vector<std::string> classes, const DatasetOptions& options)
      : root_(root),
        classes_(std::move(classes)),
        skip_bad_(options.skip_bad),
        prepare_(options.prepare),
        cache_(options.cache_bytes) {
    for (const std::string& name : list_folder(root_).folders) add_class(name);
    if (files_.empty()) fail("image_folder", root_ + " holds no class folder with pictures in it");
  }

  int64_t size() const override { return int64_t(files_.size()); }
  int64_t label(int64_t i) const override { return files_.at(size_t(i)).label; }
  std::string name(int64_t i) const override {
    return (fs::path(root_) / files_.at(size_t(i)).path).string();
  }
  const std::vector<std::string>& classes() const override { return classes_; }

  int64_t skipped() const override {
    const std::lock_guard lock(mutex_);
    return empty_classes_ + int64_t(bad_.size());
  }

  Sample get(int64_t i) const override {
    if (!skip_bad_) return {load(i), label(i), i};
    for (int64_t step = 0; step < size(); ++step) {
      const int64_t candidate = (i + step) % size();
      if (known_bad(candidate)) continue;
      try {
        return {load(candidate), label(candidate), step == 0 ? i : -1};
      } catch (const Error&) {
        const std::lock_guard lock(mutex_);
        bad_.insert(candidate);
      }
    }
    fail("image_folder", root_ + ": none of its " + std::to_string(size()) + " pictures can be read");
  }

 private:
  struct File {
    std::string path;  // below root_
    int64_t label;
  };

  void add_class(const std::string& name) {
    const auto known = std::find(classes_.begin(), classes_.end(), name);
    if (known == classes_.end()) {
      fail("image_folder", (fs::path(root_) / name).string() + " is not one of the " +
                               std::to_string(classes_.size()) + " classes of the training data");
    }
    std::vector<std::string> pictures;
    int64_t others = 0;
    std::error_code error;
    fs::recursive_directory_iterator it(fs::path(root_) / name, error);
    for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
      std::error_code ignored;
      const fs::path& path = it->path();
      if (path.filename().string()[0] == '.' || it->is_directory(ignored)) continue;
      if (is_image_file(path.filename().string())) {
        pictures.push_back(path.lexically_relative(root_).string());
      } else {
        ++others;
      }
    }
    const std::string folder = (fs::path(root_) / name).string();
    if (error) fail("image_folder", folder + " cannot be read: " + error.message());
    if (pictures.empty() && !skip_bad_) {
      fail("image_folder", folder + " holds no .jpg, .jpeg or .png file (" + std::to_string(others) +
                               " others): remove the folder, or skip bad data");
    }
    empty_classes_ += pictures.empty();
    std::sort(pictures.begin(), pictures.end());
    for (std::string& picture : pictures) files_.push_back({std::move(picture), known - classes_.begin()});
  }

  bool known_bad(int64_t i) const {
    const std::lock_guard lock(mutex_);
    return bad_.count(i) != 0;
  }

  Image load(int64_t i) const {
    if (const auto kept = cache_.find(i)) return *kept;
    Image image = read_image(name(i));
    if (prepare_) image = prepare_(std::move(image));
    cache_.keep(i, image);
    return image;
  }

  const std::string root_;
  const std::vector<std::string> classes_;
  const bool skip_bad_;
  const std::function<Image(Image)> prepare_;
  std::vector<File> files_;
  int64_t empty_classes_ = 0;

  mutable ImageCache cache_;
  mutable std::mutex mutex_;
  mutable std::set<int64_t> bad_;
};

bool has_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

}  // namespace

std::unique_ptr<Dataset> open_image_folder(const std::string& path, Split split,
                                           const DatasetOptions& options) {
  const fs::path root(path), train = root / "train";
  fs::path folder = train;
  if (split == Split::test) {
    folder = has_folder(root / "val") ? root / "val" : has_folder(root / "test") ? root / "test" : root;
    if (folder == root && has_folder(train)) {
      fail("image_folder", path + " holds train but neither val nor test: need one of them to test on");
    }
  } else if (!has_folder(train)) {
    fail("image_folder", path + " holds no train folder: need train/<class>/ and val/<class>/ to train");
  }
  std::vector<std::string> classes = options.classes;
  if (classes.empty()) classes = list_folder((has_folder(train) ? train : folder).string()).folders;
  return std::make_unique<ImageFolder>(folder.string(), std::move(classes), options);
}

}  // namespace pursuit::data
