#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "data/dataset.h"
#include "data/decoded_files.h"
#include "data/jpeg_turbo.h"
#include "data/png.h"
#include "data/resize.h"
#include "engine/base/error.h"
#include "engine/base/text.h"

namespace pursuit::data {
namespace {

namespace fs = std::filesystem;

class ImageFolder : public Dataset {
 public:
  ImageFolder(const std::string& root, std::vector<std::string> classes, const DatasetOptions& options)
      : root_(root), classes_(std::move(classes)), decoding_(options.decoding), skip_bad_(options.skip_bad) {
    check_decoder(decoding_);
    const std::vector<std::string> folders = list_folder(root_).folders;
    const bool numbered = are_numbers(folders);
    if (!numbered) check_known(folders);
    for (const std::string& name : folders) add_class(name, numbered ? std::stoll(name) : number_of(name));
    std::sort(present_.begin(), present_.end());
    if (files_.empty()) fail("image_folder", root_ + " holds no class folder with pictures in it");
    const auto load = [this, prepare = options.prepare](int64_t i) {
      Image image = read_image(name(i), decoding_);
      return prepare ? prepare(std::move(image)) : image;
    };
    const auto bytes = [](const Image& image) { return int64_t(image.pixels.size()); };
    pictures_.emplace(root_, size(), load, bytes, skip_bad_, options.cache_bytes);
  }

  int64_t size() const override { return int64_t(files_.size()); }
  int64_t label(int64_t i) const override { return files_.at(size_t(i)).label; }
  std::string name(int64_t i) const override {
    return (fs::path(root_) / files_.at(size_t(i)).path).string();
  }
  const std::vector<std::string>& classes() const override { return classes_; }

  std::vector<int64_t> present_classes() const override { return present_; }
  std::string test_split() const override {
    const std::string name = fs::path(root_).filename().string();
    return name == "val" || name == "test" ? name : "";
  }

  int64_t skipped() const override { return empty_classes_ + pictures_->bad(); }

  Sample get(int64_t i) const override {
    auto [image, found] = pictures_->get(i);
    return {std::move(image), label(found), found == i ? i : -1};
  }

  Sample get_part(int64_t i, const ChoosePart& choose) const override {
    if (decoding_.decoder != Decoder::turbo || is_png_file(name(i))) return Dataset::get_part(i, choose);
    auto [image, found] = pictures_->get(i, [&](int64_t candidate) {
      const std::vector<uint8_t> bytes = read_bytes(name(candidate));
      if (is_png(bytes.data(), bytes.size())) return part_of(pictures_->cached(candidate), choose);
      return decode_part(bytes.data(), bytes.size(), name(candidate), decoding_, choose);
    });
    return {std::move(image), label(found), found == i ? i : -1};
  }

 private:
  struct File {
    std::string path;  // relative to root_
    int64_t label;
  };

  int64_t number_of(const std::string& name) const {
    return std::find(classes_.begin(), classes_.end(), name) - classes_.begin();
  }

  // Whether no folder has the name of a class, but each has a class's number.
  bool are_numbers(const std::vector<std::string>& folders) const {
    return !folders.empty() && std::all_of(folders.begin(), folders.end(), [&](const std::string& name) {
      const int64_t classes = int64_t(classes_.size());
      if (name.size() > 6 || name.find_first_not_of("0123456789") != std::string::npos) return false;
      const int64_t number = std::stoll(name);
      return number < classes && std::to_string(number) == name && number_of(name) == classes;
    });
  }

  void check_known(const std::vector<std::string>& folders) const {
    std::string unknown;
    int64_t count = 0;
    for (const std::string& name : folders)
      if (number_of(name) == int64_t(classes_.size()) && ++count <= 5)
        unknown += (count > 1 ? ", " : "") + name;
    if (count > 5) unknown += ", ...";
    if (count > 0)
      fail("image_folder", root_ + ": " + std::to_string(count) + " of its " +
                               std::to_string(folders.size()) + " class folders are none of the " +
                               std::to_string(classes_.size()) + " classes of the training data: " + unknown +
                               "; if the model only calls its classes otherwise, name them (eval --classes)");
  }

  void add_class(const std::string& name, int64_t label) {
    present_.push_back(label);
    std::vector<std::string> pictures;
    int64_t others = 0;
    collect(name, {fs::canonical(root_)}, pictures, others);
    if (pictures.empty() && !skip_bad_) {
      fail("image_folder", (fs::path(root_) / name).string() + " holds no .jpg, .jpeg or .png file (" +
                               std::to_string(others) + " others): remove the folder, or skip bad data");
    }
    empty_classes_ += pictures.empty();
    std::sort(pictures.begin(), pictures.end());
    for (std::string& picture : pictures) files_.push_back({std::move(picture), label});
  }

  // Adds the pictures in a folder and its subfolders, following links, and counts other files. `above` has
  // the canonical paths of its parent folders.
  void collect(const fs::path& folder, std::vector<fs::path> above, std::vector<std::string>& pictures,
               int64_t& others) const {
    const fs::path path = fs::path(root_) / folder, real = fs::canonical(path);
    for (const fs::path& a : above)
      if (*a.lexically_relative(real).begin() != "..")
        fail("image_folder", path.string() + " is a link to " + real.string() +
                                 ", which holds it: remove the link, which has no end");
    above.push_back(real);
    const Listing listing = list_folder(path.string());
    for (const std::string& name : listing.files) {
      if (is_image_file(name))
        pictures.push_back((folder / name).string());
      else
        ++others;
    }
    for (const std::string& name : listing.folders) collect(folder / name, above, pictures, others);
  }

  const std::string root_;
  const std::vector<std::string> classes_;
  const Decoding decoding_;
  const bool skip_bad_;
  std::vector<File> files_;
  std::vector<int64_t> present_;
  int64_t empty_classes_ = 0;
  std::optional<DecodedFiles<Image>> pictures_;
};

}  // namespace

std::unique_ptr<Dataset> open_image_folder(const std::string& path, Split split,
                                           const DatasetOptions& options) {
  const fs::path root(path), train = root / "train";
  fs::path folder = train;
  if (split != Split::train) {
    folder = has_folder(root / "val") ? root / "val" : has_folder(root / "test") ? root / "test" : root;
    if (folder == root && has_folder(train)) {
      fail("image_folder", path + " holds train but neither val nor test: need one of them to test on");
    }
  } else if (!has_folder(train)) {
    fail("image_folder", path + " holds no train folder: need train/<class>/ and val/<class>/ to train");
  }
  std::vector<std::string> classes = options.classes;
  if (classes.empty()) classes = list_folder((has_folder(train) ? train : folder).string()).folders;
  for (const std::string& name : classes)
    if (!is_utf8(name))
      fail("image_folder",
           path + ": the class folder '" + printable(name) + "' has a name that is not UTF-8; rename it");
  return std::make_unique<ImageFolder>(folder.string(), std::move(classes), options);
}

namespace {

std::string find_image_folder(const std::string& path, bool inside) {
  const std::vector<std::string> folders = list_folder(path).folders;
  for (const Choice<Split>& split : choices_of(Split{}))
    if (std::count(folders.begin(), folders.end(), split.name)) return path;
  for (const std::string& name : folders) {
    const std::string folder = (fs::path(path) / name).string();
    if (access(folder.c_str(), R_OK | X_OK) != 0) continue;  // such as lost+found
    const std::vector<std::string> files = list_folder(folder).files;
    if (std::any_of(files.begin(), files.end(), is_image_file)) return path;
  }
  // Archives such as ImageNet-R's unpack to one folder.
  const bool one = !inside && folders.size() == 1;
  return one ? find_image_folder((fs::path(path) / folders[0]).string(), true) : "";
}

const DatasetFormats::Entry registered{
    {.name = "folder",
     .files = "train/<class>/*.jpg with val/<class>/*.jpg",
     .find = [](const std::string& path) { return find_image_folder(path, false); },
     .open = open_image_folder}};

}  // namespace

}  // namespace pursuit::data
