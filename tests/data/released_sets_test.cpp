#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "data/class_names.h"
#include "data/corruptions.h"
#include "data/dataset.h"
#include "data/npy.h"
#include "data/segmentation.h"
#include "engine/ops.h"
#include "tests/message_of.h"
#include "tests/temporary_folder.h"

using namespace pursuit;
using namespace pursuit::data;
namespace fs = std::filesystem;

namespace {

void write_picture(const fs::path& path, uint8_t red, int width = 4, int height = 4, int channels = 3) {
  Image image(width, height, channels);
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) *image.at(x, y) = red;
  fs::create_directories(path.parent_path());
  write_png(path.string(), image);
}

void write_text(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

bool has(const std::string& text, const std::string& part) {
  const bool found = text.find(part) != std::string::npos;
  if (!found) MESSAGE("not found: '", part, "' in: ", text);
  return found;
}

DatasetOptions part(const std::string& corruption, int severity, std::vector<std::string> classes = {}) {
  DatasetOptions o;
  o.part = {corruption, severity};
  o.classes = std::move(classes);
  return o;
}

}  // namespace

TEST_CASE("imagenet-c: the parts are the corruptions' folders, each of them class folders") {
  const TemporaryFolder dir;
  for (const char* name : {"fog/3", "fog/5", "brightness/1"})
    for (const char* label : {"n01", "n02"})
      write_picture(dir.path / name / label / "1.png", uint8_t(name[4] + label[2]));
  fs::create_directories(dir.path / "speckle_noise/1");  // one of the four extra corruptions
  fs::create_directories(dir.path / "fog/6");
  const std::string root = dir.path.string();
  const std::vector<CorruptedPart> parts = DatasetFormats::parts("test", root, "auto");
  CHECK(parts == std::vector<CorruptedPart>{{"fog", 3}, {"fog", 5}, {"brightness", 1}});
  const auto set = open_dataset(root, Split::test, part("fog", 5, {"n00", "n01", "n02"}));
  REQUIRE(set->size() == 2);
  CHECK(set->label(0) == 1);
  CHECK(set->label(1) == 2);
  CHECK(set->present_classes() == std::vector<int64_t>{1, 2});
  CHECK(set->get(1).image.pixels[0] == uint8_t('5' + '2'));
  CHECK(set->name(1) == root + "/fog/5/n02/1.png");

  CHECK(has(message_of([&] { open_dataset(root, Split::train); }),
            "holds corrupted pictures to be evaluated on"));
  CHECK(has(message_of([&] { open_dataset(root, Split::test, part("snow", 1)); }), "snow/1"));
  CHECK(has(message_of([&] { open_dataset(root, Split::test, part("fog", 3, {"n01"})); }),
            "1 of its 2 class folders are none of the 1 classes of the training data: n02"));
  const TemporaryFolder plain;
  write_picture(plain.path / "fog/1.png", 1);
  CHECK(DatasetFormats::parts("test", plain.path.string(), "auto").empty());  // a class called fog
  CHECK(DatasetFormats::parts("test", "", "auto").empty());
}

TEST_CASE("cifar10-c: rows of the corruption's file, five severities one after another") {
  const TemporaryFolder dir;
  const std::string root = dir.path.string();
  std::vector<uint8_t> pixels(10 * 2 * 3 * 3);  // 10 pictures of 2 rows and 3 columns
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = uint8_t(i);
  std::vector<int64_t> labels;
  for (int i = 0; i < 10; ++i) labels.push_back(i % 2 ? 9 : 4);
  const auto save = [&](const std::string& name, const Tensor& t) { save_npy(dir.file(name), t); };
  save("fog.npy", from_vector(pixels, {10, 2, 3, 3}));
  save("labels.npy", from_vector(labels, {10}));
  const auto parts = DatasetFormats::parts("test", root, "auto");
  REQUIRE(parts.size() == 5);
  CHECK(parts[2] == CorruptedPart{"fog", 3});
  const auto set = open_dataset(root, Split::test, part("fog", 3));
  REQUIRE(set->size() == 2);
  CHECK(set->classes()[4] == "deer");
  CHECK(set->label(0) == 4);
  CHECK(set->label(1) == 9);
  CHECK(set->name(1) == "fog.npy#1");
  const Sample sample = set->get(1);
  CHECK(sample.index == 1);
  CHECK(sample.image.width == 3);
  CHECK(sample.image.height == 2);
  CHECK(*sample.image.at(1, 1) == uint8_t(5 * 18 + (1 * 3 + 1) * 3));  // picture 5 of the file
  DatasetOptions one = part("fog", 5);
  one.limit = 1;
  CHECK(open_dataset(root, Split::test, one)->size() == 1);

  const auto refusal = [&](const Tensor& pictures, const Tensor& wanted) {
    save("snow.npy", pictures);
    save("labels.npy", wanted);
    return message_of([&] { open_dataset(root, Split::test, part("snow", 1)); });
  };
  const Tensor good = zeros({10, 2, 2, 3}, DType::u8), ten = zeros({10}, DType::i64);
  CHECK(refusal(good, ten).empty());
  for (const Tensor& bad :
       {zeros({10, 2, 2}, DType::u8), zeros({10, 3, 2, 2}, DType::u8), zeros({9, 2, 2, 3}, DType::u8),
        zeros({10, 2, 2, 3}), zeros({0, 2, 2, 3}, DType::u8)}) {
    CHECK(has(refusal(bad, ten), "snow.npy holds"));
    CHECK(has(refusal(bad, ten), "need u8 [5 N, height, width, 3]"));
  }
  CHECK(has(refusal(good, zeros({11}, DType::i64)), "labels.npy holds"));
  CHECK(has(refusal(good, zeros({10})), "need integers [10], one for every picture of snow.npy"));
  CHECK(has(refusal(good, full({10}, 10, DType::i64)), "holds the label 10, need 0 to 9"));
  CHECK(has(message_of([&] { open_dataset(root, Split::train); }), "give it to eval"));
  write_text(dir.path / "snow.npy", "no array");
  CHECK(has(message_of([&] { open_dataset(root, Split::test, part("snow", 1)); }), "snow.npy"));
}

TEST_CASE("imagenet-v2: folders named by the classes' numbers, unless they are names") {
  const TemporaryFolder dir;
  for (const int c : {0, 2, 10}) write_picture(dir.path / "v2" / std::to_string(c) / "1.png", uint8_t(c));
  DatasetOptions o;
  for (int c = 0; c < 12; ++c) o.classes.push_back("class " + std::string(1, char('a' + c)));
  // The archive's one folder is found too.
  const auto set = open_dataset(dir.path.string(), Split::test, o);
  REQUIRE(set->size() == 3);
  CHECK(set->present_classes() == std::vector<int64_t>{0, 2, 10});
  for (int64_t i = 0; i < 3; ++i) CHECK(set->get(i).image.pixels[0] == set->label(i));
  // Classes that are called by numbers: labels follow the names, which are sorted as text.
  o.classes = {"0", "1", "10", "2"};
  CHECK(open_dataset(dir.path.string(), Split::test, o)->present_classes() == std::vector<int64_t>{0, 2, 3});
  for (const char* beyond : {"12", "02", "x"}) {
    const TemporaryFolder other;
    write_picture(other.path / "1/1.png", 1);
    write_picture(other.path / beyond / "1.png", 1);
    o.classes.assign(12, "");
    for (size_t c = 0; c < 12; ++c) o.classes[c] = "class" + std::to_string(c);
    CHECK(has(message_of([&] { open_dataset(other.path.string(), Split::test, o); }),
              "are none of the 12 classes"));
  }
}

TEST_CASE("classes: from a list, or the folders of a training set") {
  const TemporaryFolder dir;
  write_text(dir.path / "list", "n00000002 tench, Tinca tinca\nn00000001\nhot dog\n");
  CHECK(read_classes(dir.file("list")) == std::vector<std::string>{"n00000002", "n00000001", "hot dog"});
  for (const char* name : {"set/train/b", "set/train/a", "set/val/c", "plain/y", "plain/x"})
    fs::create_directories(dir.path / name);
  CHECK(read_classes(dir.file("set")) == std::vector<std::string>{"a", "b"});
  CHECK(read_classes(dir.file("plain")) == std::vector<std::string>{"x", "y"});
  CHECK(has(message_of([&] { read_classes(dir.file("none")); }), "none"));
  CHECK(has(message_of([&] { read_classes(dir.file("set/val/c")); }), "holds no class folders"));
  write_text(dir.path / "twice", "n00000002 tench\nn00000002\n");
  CHECK(has(message_of([&] { read_classes(dir.file("twice")); }), "names the class 'n00000002' twice"));
}

TEST_CASE("corrupted segmentation sets: fog/3 and others, each in a layout that is known") {
  const TemporaryFolder dir;
  const fs::path street = dir.path / "camvid-c/fog/3", room = dir.path / "ade-c/snow/1";
  Image labels(4, 4, 1);
  labels.pixels.assign(16, 3);
  write_picture(street / "test/a.png", 70);
  fs::create_directories(street / "testannot");
  write_png((street / "testannot/a.png").string(), labels);
  write_picture(room / "images/validation/b.png", 80);
  fs::create_directories(room / "annotations/validation");
  write_png((room / "annotations/validation/b.png").string(), labels);
  std::string info = "Idx\tRatio\tTrain\tVal\tName\n";
  for (int i = 1; i <= 3; ++i) info += std::to_string(i) + "\t0\t0\t0\tthing " + std::to_string(i) + "\n";
  write_text(room / "objectInfo150.txt", info);

  for (const auto& [name, corruption, severity, red, label] :
       {std::tuple{"camvid-c", "fog", 3, 70, 3}, {"ade-c", "snow", 1, 80, 2}}) {
    const std::string root = dir.file(name);
    SegmentationOptions o;
    CHECK(SegmentationFormats::parts("test", root, "auto") ==
          std::vector<CorruptedPart>{{corruption, severity}});
    o.part = {corruption, severity};
    const auto set = open_segmentation(root, Split::test, o);
    REQUIRE(set->size() == 1);
    const SegmentationSample sample = set->get(0);
    CHECK(sample.image.pixels[0] == red);
    CHECK(sample.labels.pixels[0] == label);
    CHECK(has(message_of([&] { open_segmentation(root, Split::train); }), "give it to eval"));
  }
}
