#include "data/format.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "data/dataset.h"
#include "data/segmentation.h"
#include "tests/temporary_folder.h"

namespace pursuit::data {
namespace {

// A format added from outside of data/, as its README describes: grey levels of one-pixel pictures.
class Greys : public Dataset {
 public:
  explicit Greys(std::vector<std::string> levels) : levels_(std::move(levels)) {}
  int64_t size() const override { return int64_t(levels_.size()); }
  int64_t label(int64_t i) const override { return std::stoi(levels_.at(size_t(i))) > 127; }
  std::string name(int64_t i) const override { return "grey#" + std::to_string(i); }
  const std::vector<std::string>& classes() const override { return classes_; }
  Sample get(int64_t i) const override {
    Sample sample{Image(1, 1, 1), label(i), i};
    sample.image.pixels[0] = uint8_t(std::stoi(levels_.at(size_t(i))));
    return sample;
  }

 private:
  std::vector<std::string> levels_, classes_ = {"dark", "light"};
};

const DatasetFormats::Entry registered{
    {.name = "greys",
     .files = "train.greys with test.greys",
     .find = [](const std::string& path) { return folder_with(path, "greys", {".greys"}); },
     .open = [](const std::string& folder, Split split, const DatasetOptions&) -> std::unique_ptr<Dataset> {
       const std::string name = split == Split::train ? "train" : "test";
       return std::make_unique<Greys>(read_lines(folder + "/" + name + ".greys"));
     }}};

std::string error_of(const std::string& path, const std::string& format = "auto") {
  try {
    open_dataset(path, Split::train, {.format = format});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("formats: one that registers itself is found, listed and named in messages") {
  const TemporaryFolder dir;
  const std::string path = dir.path.string();
  CHECK(has(error_of(path), "train.greys with test.greys (greys)"));
  write(dir.file("train.greys"), "7\n200\n9\n");
  write(dir.file("test.greys"), "128\n");
  const auto train = open_dataset(path, Split::train), few = open_dataset(path, Split::train, {.limit = 2});
  CHECK(train->size() == 3);
  CHECK(train->get(1).image.pixels[0] == 200);
  CHECK(train->get(1).label == 1);
  CHECK(few->size() == 2);
  CHECK(open_dataset(path, Split::val)->get(0).label == 1);
  CHECK(has(DatasetFormats::help(), "cifar10, cifar10-c, folder, greys, idx, "));
  CHECK(has(error_of(path, "gray"), "got gray, need auto, cifar10, cifar10-c, folder, greys, idx, "));
  CHECK(std::string(SegmentationFormats::help()) ==
        "Format of the data: auto, ade20k, camvid, coco_stuff, corrupted, folder or scenes");

  // Named or not, the format's folder inside is found.
  const TemporaryFolder outer;
  std::filesystem::create_directory(outer.path / "greys");
  write(outer.file("greys/train.greys"), "7\n");
  for (const char* format : {"auto", "greys"})
    CHECK(open_dataset(outer.path.string(), Split::train, {.format = format})->size() == 1);

  write(dir.file("data_batch_1.bin"), "");
  CHECK(has(error_of(path), "has the files of several formats: name the one to read, cifar10 or greys"));
  CHECK(open_dataset(path, Split::train, {.format = "greys"})->size() == 3);
}

TEST_CASE("formats: two of a name are refused") {
  CHECK_THROWS_WITH_AS(DatasetFormats::Entry({.name = "idx", .open = nullptr}),
                       doctest::Contains("two formats of the name idx"), Error);
}

}  // namespace pursuit::data
