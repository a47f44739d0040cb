#include "data/segmentation.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "data/augment.h"
#include "data/colour.h"
#include "data/loader.h"
#include "data/png.h"
#include "data/resize.h"
#include "data/segmentation_augment.h"
#include "engine/base/error.h"
#include "tests/data/raw_png.h"
#include "tests/needs.h"
#include "tests/temporary_folder.h"

using namespace pursuit::data;
using pursuit::Random;
namespace fs = std::filesystem;

namespace {

// A folder of pictures and label maps.
struct Folder : TemporaryFolder {
  std::string str() const { return path.string(); }
  std::string at(const std::string& name) const {
    fs::create_directories((path / name).parent_path());
    return (path / name).string();
  }
  void text(const std::string& name, const std::string& content) const { std::ofstream(at(name)) << content; }
  void bytes(const std::string& name, const std::vector<uint8_t>& content) const {
    std::ofstream(at(name), std::ios::binary)
        .write(reinterpret_cast<const char*>(content.data()), long(content.size()));
  }
  // One channel: values; three: every pixel this grey.
  void picture(const std::string& name, int width, int height, int channels,
               const std::vector<uint8_t>& values) const {
    Image image(width, height, channels);
    for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = values[i % values.size()];
    write_png(at(name), image);
  }
  // images/ and labels/ with as many pairs of 2 x 2 pixels, and two classes.
  void pairs(int count, const std::string& split = "") const {
    for (int i = 0; i < count; ++i) {
      const std::string stem = split + "p" + std::to_string(10 + i);
      picture("images/" + stem + ".png", 2, 2, 3, {uint8_t(i)});
      picture("labels/" + stem + ".png", 2, 2, 1, {0, 1, 255, 1});
    }
    text("classes.txt", "sky\ntraffic light\n");
  }
};

using Counts = std::array<int64_t, 256>;
Counts counts_of(const SegmentationDataset& set) {
  Counts counts{};
  for (int64_t i = 0; i < set.size(); ++i)
    for (const uint8_t label : set.get(i).labels.pixels) ++counts[label];
  return counts;
}

}  // namespace

TEST_CASE("index png: palette, few bits and grey give the stored numbers") {
  // Rows begin with the filter byte 0.
  const auto palette = raw_png(3, 2, 8, 3, {9, 9, 9, 200, 0, 0, 0, 200, 0}, {0, 2, 0, 1, 0, 1, 1, 2});
  CHECK(decode_index_png(palette, "a").pixels == std::vector<uint8_t>{2, 0, 1, 1, 1, 2});
  CHECK(decode_image(palette.data(), palette.size(), "a").pixels[0] == 0);  // as a picture it has its colours
  const auto two_bits = raw_png(4, 1, 2, 3, {9, 9, 9, 8, 8, 8, 7, 7, 7, 6, 6, 6}, {0, 0b00011011});
  CHECK(decode_index_png(two_bits, "a").pixels == std::vector<uint8_t>{0, 1, 2, 3});
  const auto four_bits = raw_png(2, 1, 4, 0, {}, {0, 0xb5});
  CHECK(decode_index_png(four_bits, "a").pixels == std::vector<uint8_t>{11, 5});
  const auto one_bit = raw_png(3, 1, 1, 0, {}, {0, 0b10100000});
  CHECK(decode_index_png(one_bit, "a").pixels == std::vector<uint8_t>{1, 0, 1});
  const auto sixteen = raw_png(1, 1, 16, 0, {}, {0, 1, 2});
  CHECK_THROWS_WITH_AS(decode_index_png(sixteen, "a.png"), doctest::Contains("a.png: got 16 bits a pixel"),
                       pursuit::Error);
  auto cut = palette;
  cut.resize(60);
  CHECK_THROWS_WITH_AS(decode_index_png(cut, "a.png"), doctest::Contains("a.png: truncated PNG"),
                       pursuit::Error);
  auto damaged = palette;
  damaged[damaged.size() - 20] ^= 1;
  CHECK_THROWS_WITH_AS(decode_index_png(damaged, "a.png"), doctest::Contains("a.png: damaged PNG"),
                       pursuit::Error);
  CHECK_THROWS_WITH_AS(decode_index_png({0xff, 0xd8, 0xff}, "a.jpg"),
                       doctest::Contains("label maps are PNGs"), pursuit::Error);
}

TEST_CASE("label key: numbers, ignored entries and colours") {
  const Folder folder;
  folder.text("classes.txt", "sky  10 20 30\r\nignore 0 0 0\n\ntraffic light 1 2 3\n");
  const LabelKey key = read_class_file(folder.at("classes.txt"));
  CHECK(key.classes() == std::vector<std::string>{"sky", "traffic light"});
  CHECK(key.colours() == std::vector<Rgb>{{10, 20, 30}, {1, 2, 3}});
  folder.picture("numbers.png", 2, 2, 1, {0, 1, 2, 255});
  CHECK(key.read(folder.at("numbers.png")).pixels == std::vector<uint8_t>{0, 255, 1, 255});
  folder.picture("colours.png", 3, 1, 3, {1, 2, 3, 0, 0, 0, 10, 20, 30});
  CHECK(key.read(folder.at("colours.png")).pixels == std::vector<uint8_t>{1, 255, 0});
  // A palette holds colours where the classes have them, numbers where not.
  folder.bytes("palette.png", raw_png(2, 1, 8, 3, {10, 20, 30, 1, 2, 3}, {0, 1, 0}));
  CHECK(key.read(folder.at("palette.png")).pixels == std::vector<uint8_t>{1, 0});
  const LabelKey plain({{"sky", {}}, {"road", {}}}, "test");
  CHECK(plain.read(folder.at("palette.png")).pixels == std::vector<uint8_t>{1, 0});
  CHECK(plain.colours() == std::vector<Rgb>{{128, 0, 0}, {0, 128, 0}});  // VOC's aeroplane and bicycle

  folder.picture("high.png", 2, 2, 1, {0, 1, 3, 0});
  CHECK_THROWS_WITH_AS(
      key.read(folder.at("high.png")),
      doctest::Contains("high.png: the pixel at x 0, y 1 has the label 3, need 0 to 2 or 255"),
      pursuit::Error);
  folder.picture("unknown.png", 2, 1, 3, {1, 2, 3, 7, 8, 9});
  CHECK_THROWS_WITH_AS(key.read(folder.at("unknown.png")),
                       doctest::Contains("unknown.png: the pixel at x 1, y 0 has the colour 7 8 9"),
                       pursuit::Error);
  CHECK_THROWS_WITH_AS(plain.read(folder.at("unknown.png")), doctest::Contains("the classes have no colours"),
                       pursuit::Error);
  CHECK_THROWS_WITH_AS(key.read(folder.at("missing.png")), doctest::Contains("missing.png"), pursuit::Error);
  CHECK_THROWS_WITH_AS(LabelKey({{"ignore", {}}}, "f"), doctest::Contains("f: no classes"), pursuit::Error);
  CHECK_THROWS_WITH_AS(LabelKey(std::vector<LabelKey::Entry>(256, {"a", {}}), "f"),
                       doctest::Contains("at most 255"), pursuit::Error);
  CHECK_THROWS_WITH_AS(LabelKey({{"a", Rgb{1, 2, 3}}, {"b", {}}}, "f"),
                       doctest::Contains("1 of 2 classes have a colour"), pursuit::Error);
  // If only `ignore` had a colour, palettes would be read as colours that no class has.
  CHECK_THROWS_WITH_AS(LabelKey({{"a", {}}, {"ignore", Rgb{0, 0, 0}}}, "f"),
                       doctest::Contains("f: 0 of 1 classes have a colour, but ignore has one"),
                       pursuit::Error);
  CHECK_THROWS_WITH_AS(LabelKey({{"a", Rgb{1, 2, 3}}, {"b", Rgb{1, 2, 3}}}, "f"),
                       doctest::Contains("another entry's"), pursuit::Error);
  CHECK_THROWS_WITH_AS(LabelKey({{"a", {}}, {"b", {}}, {"a", {}}}, "f"),
                       doctest::Contains("f line 3: 'a' is the name of another line too"), pursuit::Error);
  CHECK(LabelKey({{"ignore", {}}, {"a", {}}, {"ignore", {}}}, "f").classes().size() == 1);
}

TEST_CASE("segmentation: a set says which split it is of, and has the one of val and test that there is") {
  const auto split_of = [](const Folder& folder, Split asked) {
    return open_segmentation(folder.str(), asked)->split();
  };
  const Folder held_out, folders, camvid, ade, coco;
  held_out.pairs(10);
  folders.pairs(1, "train/");
  folders.pairs(1, "test/");
  for (const char* split : {"train", "val"}) {
    const std::string name = split;
    camvid.picture(name + "/a.png", 2, 2, 3, {1});
    camvid.picture(name + "annot/a.png", 2, 2, 1, {1});
    coco.picture(name + "_img/a.png", 2, 2, 3, {1});
    coco.picture(name + "_label/a.png", 2, 2, 1, {1});
  }
  for (const char* split : {"training", "validation"}) {
    ade.picture(std::string("images/") + split + "/a.png", 2, 2, 3, {1});
    ade.picture(std::string("annotations/") + split + "/a.png", 2, 2, 1, {1});
  }
  ade.text("objectInfo150.txt", "Idx\tRatio\tTrain\tVal\tName\n1\t0.1\t1\t1\twall\n");
  for (const Folder* folder : {&held_out, &camvid, &ade, &coco}) {
    CHECK(split_of(*folder, Split::train) == Split::train);
    CHECK(split_of(*folder, Split::val) == Split::val);
    CHECK(split_of(*folder, Split::test) == Split::val);
  }
  CHECK(split_of(folders, Split::val) == Split::test);
  CHECK(split_of(folders, Split::test) == Split::test);
  for (const Split split : {Split::train, Split::val, Split::test})
    CHECK(open_segmentation("", split)->split() == split);
  SegmentationOptions options;
  options.format = "scenes";
  CHECK_THROWS_WITH_AS(open_segmentation(held_out.str(), Split::val, options),
                       doctest::Contains("format scenes is drawn, but the data is to be that of"),
                       pursuit::Error);
}

TEST_CASE("segmentation folder: splits, held-out pictures, limit and errors") {
  const Folder folder;
  folder.pairs(21);
  const auto train = open_segmentation(folder.str(), Split::train),
             val = open_segmentation(folder.str(), Split::val);
  CHECK(train->size() == 19);
  CHECK(val->size() == 2);
  std::set<std::string> names;
  for (int64_t i = 0; i < train->size(); ++i) names.insert(train->name(i));
  for (int64_t i = 0; i < val->size(); ++i) names.insert(val->name(i));
  CHECK(names.size() == 21);
  const SegmentationSample sample = val->get(1);
  CHECK(sample.index == 1);
  CHECK(sample.image.pixels == std::vector<uint8_t>(12, 19));
  CHECK(sample.labels.pixels == std::vector<uint8_t>{0, 1, 255, 1});
  SegmentationOptions options;
  options.limit = 4;
  const auto few = open_segmentation(folder.str(), Split::train, options);
  CHECK(few->size() == 4);
  CHECK(few->name(3) == train->name(14));
  CHECK(few->get(3).index == 14);
  options.limit = 0;
  options.first = 3;
  const auto first = open_segmentation(folder.str(), Split::train, options);
  CHECK(first->size() == 3);
  CHECK(first->name(2) == train->name(2));
  options.limit = 2;
  CHECK(open_segmentation(folder.str(), Split::train, options)->get(1).index == 1);
  CHECK(open_segmentation("", Split::val, options)->size() == 2);

  options.format = "kitti";
  CHECK_THROWS_WITH_AS(open_segmentation(folder.str(), Split::train, options),
                       doctest::Contains("unknown format: got kitti"), pursuit::Error);
  CHECK_THROWS_WITH_AS(open_segmentation(folder.str() + "/none", Split::train),
                       doctest::Contains("none does not exist"), pursuit::Error);
  CHECK_THROWS_WITH_AS(open_segmentation(folder.str() + "/images", Split::train),
                       doctest::Contains("no known layout"), pursuit::Error);

  folder.picture("labels/lonely.png", 2, 2, 1, {0});
  CHECK_THROWS_WITH_AS(open_segmentation(folder.str(), Split::train),
                       doctest::Contains("labels/lonely.png has no picture: need one of that name in"),
                       pursuit::Error);
  fs::remove(folder.path / "labels/lonely.png");
  fs::remove(folder.path / "labels/p15.png");
  CHECK_THROWS_WITH_AS(open_segmentation(folder.str(), Split::train),
                       doctest::Contains("p15.png has no label map"), pursuit::Error);
  options = {};
  options.skip_bad = true;
  const auto rest = open_segmentation(folder.str(), Split::train, options);
  CHECK(rest->size() == 18);
  CHECK(rest->skipped() == 1);
}

TEST_CASE("segmentation folder: too few pictures to hold one out") {
  const Folder folder;
  folder.pairs(9);
  CHECK(open_segmentation(folder.str(), Split::train)->size() == 9);
  CHECK_THROWS_WITH_AS(open_segmentation(folder.str(), Split::val),
                       doctest::Contains("images has 9 pictures, and one in 10 is held out for evaluation: "
                                         "need at least 10, or folders train and val"),
                       pursuit::Error);
}

TEST_CASE("segmentation folder: split folders, damaged pairs and the cache") {
  const Folder folder;
  folder.pairs(3, "train/");
  folder.pairs(2, "val/");
  CHECK(open_segmentation(folder.str(), Split::train)->size() == 3);
  CHECK(open_segmentation(folder.str(), Split::test)->size() == 2);  // there is no other
  folder.picture("labels/train/p11.png", 3, 2, 1, {0});
  const auto strict = open_segmentation(folder.str(), Split::train);
  CHECK_THROWS_WITH_AS(strict->get(1), doctest::Contains("labels/train/p11.png has 3 x 2 pixels"),
                       pursuit::Error);
  CHECK_THROWS_WITH_AS(strict->get(1), doctest::Contains("images/train/p11.png has 2 x 2"), pursuit::Error);
  SegmentationOptions options;
  options.skip_bad = true;
  options.cache_bytes = 16;  // of one pair
  const auto lenient = open_segmentation(folder.str(), Split::train, options);
  CHECK(lenient->get(0).index == 0);
  CHECK(lenient->get(1).index == -1);
  CHECK(lenient->get(1).image.pixels[0] == 2);
  CHECK(lenient->skipped() == 1);
  fs::remove_all(folder.path / "images");
  CHECK(lenient->get(0).image.pixels[0] == 0);  // from memory
  CHECK(lenient->get(2).index == -1);
  CHECK(lenient->skipped() == 2);
}

DATA_TEST_CASE("segmentation: the real CamVid loads", "camvid") {
  SegmentationOptions few;
  few.limit = 5;
  const auto camvid = open_segmentation(shared_data("camvid"), Split::test, few);
  CHECK(open_segmentation(shared_data("camvid"), Split::train)->size() == 367);
  CHECK(open_segmentation(shared_data("camvid"), Split::val)->size() == 101);
  CHECK(open_segmentation(shared_data("camvid"), Split::test)->size() == 233);
  CHECK(camvid->classes().size() == 11);
  CHECK(camvid->get(0).image.width == 480);
  const Counts of_camvid = counts_of(*camvid);
  for (const size_t common : {0, 1, 3, 5, 8}) CHECK(of_camvid[common] > 0);
  CHECK(of_camvid[11] == 0);
  CHECK(of_camvid[kIgnoredLabel] > 0);
}

DATA_TEST_CASE("segmentation: a real ADE20K folder loads", "ADEChallengeData2016") {
  for (const Split split : {Split::train, Split::val}) {
    const auto ade = open_segmentation(shared_data("ADEChallengeData2016"), split);
    CHECK(ade->size() == 3);
    CHECK(ade->classes().size() == 150);
    CHECK(ade->classes()[0] == "wall");
    CHECK(ade->classes()[149] == "flag");
    const Counts counts = counts_of(*ade);
    CHECK(counts[kIgnoredLabel] > 0);
    CHECK(std::all_of(counts.begin() + 150, counts.begin() + 255, [](int64_t n) { return n == 0; }));
    // The raw number 0 is what is ignored, and the others are shifted by one.
    const fs::path file = fs::path(ade->name(0)).filename().replace_extension(".png");
    const std::string folder = split == Split::train ? "training" : "validation";
    const Image raw =
        to_grey(read_image(shared_data("ADEChallengeData2016/annotations/" + folder + "/" + file.string())));
    const Image labels = ade->get(0).labels;
    REQUIRE(raw.pixels.size() == labels.pixels.size());
    bool same = true;
    for (size_t i = 0; i < raw.pixels.size(); ++i)
      same &= labels.pixels[i] == (raw.pixels[i] == 0 ? kIgnoredLabel : raw.pixels[i] - 1);
    CHECK(same);
  }
}

DATA_TEST_CASE("segmentation: a real COCO-Stuff folder loads", "coco_stuff") {
  const auto coco = open_segmentation(shared_data("coco_stuff"), Split::train);
  CHECK(coco->size() == 13);
  CHECK(open_segmentation(shared_data("coco_stuff"), Split::test)->size() == 8);
  CHECK(coco->classes().size() == 182);
  const Counts of_coco = counts_of(*coco);
  CHECK(of_coco[kIgnoredLabel] > 0);
  CHECK(std::all_of(of_coco.begin() + 182, of_coco.begin() + 255, [](int64_t n) { return n == 0; }));
}

TEST_CASE("camvid: a list names files by their stem, without one the folder counts") {
  const Folder folder;
  for (const char* stem : {"a", "b", "c"}) {
    folder.picture(std::string("train/") + stem + ".png", 2, 2, 3, {5});
    folder.picture(std::string("trainannot/") + stem + ".png", 2, 2, 1, {0, 10, 11, 3});
  }
  CHECK(open_segmentation(folder.str(), Split::train)->size() == 3);
  folder.text("train.txt", "/other/place/c.png /other/place/c.png\n/other/place/a.png x\n");
  const auto listed = open_segmentation(folder.str(), Split::train);
  REQUIRE(listed->size() == 2);
  CHECK(listed->name(0) == folder.at("train/c.png"));
  CHECK(listed->get(0).labels.pixels == std::vector<uint8_t>{0, 10, 255, 3});
  folder.text("train.txt", "/other/place/d.png x\n");
  CHECK_THROWS_WITH_AS(open_segmentation(folder.str(), Split::train),
                       doctest::Contains("train.txt names 'd', but there is no picture of that name in"),
                       pursuit::Error);
}

TEST_CASE("camvid: names in a list may hold blanks") {
  const Folder folder;
  for (const char* stem : {"a", "a street", "two  blanks"}) {
    folder.picture(std::string("train/") + stem + ".png", 2, 2, 3, {5});
    folder.picture(std::string("trainannot/") + stem + ".png", 2, 2, 1, {0});
  }
  folder.text("train.txt",
              "train/a street.png trainannot/a street.png\ntwo  blanks.png\na x\n/my data/a.png\tx\n");
  const auto listed = open_segmentation(folder.str(), Split::train);
  REQUIRE(listed->size() == 4);
  CHECK(listed->name(0) == folder.at("train/a street.png"));
  CHECK(listed->name(1) == folder.at("train/two  blanks.png"));
  CHECK(listed->name(2) == folder.at("train/a.png"));
  CHECK(listed->name(3) == folder.at("train/a.png"));
}

TEST_CASE("ade20k: a damaged class list is named") {
  const Folder folder;
  fs::create_directories(folder.path / "images/training");
  fs::create_directories(folder.path / "annotations/training");
  CHECK_THROWS_WITH_AS(open_segmentation(folder.str(), Split::train),
                       doctest::Contains("objectInfo150.txt': cannot be opened: No such file"),
                       pursuit::Error);
  folder.text("objectInfo150.txt", "Idx\tRatio\tTrain\tVal\tName\n1\t0.1\t1\t1\twall\n3\t0.1\t1\t1\tsky\n");
  CHECK_THROWS_WITH_AS(open_segmentation(folder.str(), Split::train),
                       doctest::Contains("line 3: need the class number 2"), pursuit::Error);
  folder.text("objectInfo150.txt", "Idx\tRatio\tTrain\tVal\tName\n1\t0.1\t1\t1\twall\n");
  CHECK_THROWS_WITH_AS(open_segmentation(folder.str(), Split::train), doctest::Contains("holds no picture"),
                       pursuit::Error);
}

TEST_CASE("scenes: repeatable, different between splits, every class drawn, labels where the figures are") {
  const auto train = open_segmentation("", Split::train), again = open_segmentation("", Split::train);
  const auto val = open_segmentation("", Split::val), test = open_segmentation("", Split::test);
  CHECK(train->size() == 2000);
  CHECK(val->size() == 200);
  const SegmentationSample sample = train->get(7);
  CHECK(sample.image.pixels == again->get(7).image.pixels);
  CHECK(sample.labels.pixels == again->get(7).labels.pixels);
  CHECK(sample.image.pixels != train->get(8).image.pixels);
  CHECK(sample.image.pixels != val->get(7).image.pixels);
  CHECK(test->get(7).image.pixels != val->get(7).image.pixels);
  CHECK(sample.labels.width == 128);
  CHECK(sample.labels.height == 96);
  const auto few = open_scenes(Split::train, 40, 64, 48, 3);
  CHECK(few->size() == 40);
  const Counts counts = counts_of(*few);
  const auto classes = few->classes().size();
  REQUIRE(classes == few->colours().size());
  for (size_t c = 0; c < classes; ++c) CHECK(counts[c] > 500);
  for (size_t c = classes; c < 256; ++c) CHECK(counts[c] == 0);
  // A figure is drawn in its class's colour, give or take the spread and the grain.
  int64_t near = 0, all = 0;
  for (size_t i = 0; i < sample.labels.pixels.size(); ++i) {
    const uint8_t label = sample.labels.pixels[i];
    if (label == 0) continue;
    ++all;
    bool close = true;
    for (size_t c = 0; c < 3; ++c)
      close &= std::abs(int(sample.image.pixels[3 * i + c]) - int(train->colours()[label][c])) < 110;
    near += close;
  }
  REQUIRE(all > 100);
  CHECK(double(near) / double(all) > 0.99);
  CHECK_THROWS_AS(open_scenes(Split::train, 0, 8, 8), pursuit::Error);
}

namespace {

// Red is the column, green the row, and the label the column's half: what moves together shows.
SegmentationSample striped(int width, int height) {
  SegmentationSample sample{Image(width, height, 3), Image(width, height, 1), 0};
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      sample.image.at(x, y)[0] = uint8_t(x < width / 2 ? 40 : 200);
      sample.image.at(x, y)[1] = uint8_t(y);
      *sample.labels.at(x, y) = x < width / 2 ? 3 : 4;
    }
  return sample;
}

}  // namespace

TEST_CASE("segmentation augment: picture and labels stay together") {
  const SegmentationSample sample = striped(60, 40);
  SegmentationAugment options;
  options.crop_width = 32, options.crop_height = 24;
  options.short_side = 0;
  options.photometric = false;
  std::set<bool> flipped;
  std::set<int> widths;
  int64_t checked = 0, wrong = 0;
  for (uint64_t stream = 0; stream < 60; ++stream) {
    Random random(1, stream), same(1, stream);
    const SegmentationSample out = augment(sample, options, random);
    const SegmentationSample again = augment(sample, options, same);
    CHECK(out.image.pixels == again.image.pixels);
    CHECK(out.labels.pixels == again.labels.pixels);
    REQUIRE(out.image.width == out.labels.width);
    REQUIRE(out.image.height == out.labels.height);
    CHECK(out.image.width <= 32);
    CHECK(out.image.height <= 24);
    widths.insert(out.image.width);
    flipped.insert(*out.labels.at(0, 0) > *out.labels.at(out.labels.width - 1, 0));
    for (int y = 0; y < out.image.height; ++y)
      for (int x = 0; x < out.image.width; ++x) {
        const int red = out.image.at(x, y)[0], label = *out.labels.at(x, y);
        CHECK_UNARY(label == 3 || label == 4);
        if (red > 110 && red < 130) continue;  // on the border the colours mix, the labels do not
        ++checked;
        wrong += (red > 120) != (label == 4);
      }
  }
  CHECK(checked > 10000);
  CHECK(wrong == 0);
  CHECK(flipped.size() == 2);
  CHECK(widths.size() > 1);  // scaled below the crop's size at times
}

TEST_CASE("segmentation augment: no crop of one class where others are near") {
  SegmentationSample sample = striped(64, 16);
  SegmentationAugment options;
  options.crop_width = options.crop_height = 16;
  options.short_side = 0;
  options.ratio_min = options.ratio_max = 1;
  options.photometric = false;
  const auto one_class = [&](double share) {
    options.max_class_share = share;
    int count = 0;
    for (uint64_t stream = 0; stream < 300; ++stream) {
      Random random(2, stream);
      const Image labels = augment(sample, options, random).labels;
      const auto threes = std::count(labels.pixels.begin(), labels.pixels.end(), 3);
      const auto largest = std::max<int64_t>(threes, 256 - threes);
      count += double(largest) / 256 >= 0.75;
    }
    return count;
  };
  const int freely = one_class(1), chosen = one_class(0.75);
  CHECK(freely > 200);  // 9 in 49 places are mixed enough
  CHECK(chosen < 75);   // eleven tries all fail in one of ten
  CHECK(chosen > 0);    // and then the last crop is taken
}

TEST_CASE("segmentation augment: sizes follow the sides the picture is fitted to") {
  SegmentationAugment options;
  options.crop_width = options.crop_height = 10000;
  options.ratio_min = options.ratio_max = 0.5;
  options.short_side = 80, options.long_side = 120;
  options.flip = 0;
  Random random(1);
  const SegmentationSample wide = augment(striped(100, 50), options, random);
  CHECK(wide.image.width == 60);  // the longer side binds: 120 / 100 is below 80 / 50
  CHECK(wide.image.height == 30);
  const SegmentationSample square = augment(striped(50, 50), options, random);
  CHECK(square.image.width == 40);
}

TEST_CASE("photometric distortion: grey stays grey, hue turns, and half the steps are left out") {
  Image image(4, 1, 3);
  image.pixels = {0, 0, 0, 100, 100, 100, 200, 50, 50, 10, 200, 100};
  int unchanged = 0, turned = 0;
  for (uint64_t stream = 0; stream < 400; ++stream) {
    Random random(3, stream);
    const Image out = photometric_distortion(image, random);
    CHECK(out.pixels[3] == out.pixels[4]);
    CHECK(out.pixels[4] == out.pixels[5]);
    unchanged += out.pixels == image.pixels;
    // The hue of a red pixel moves by at most 36 degrees, so red stays the largest channel.
    CHECK(out.pixels[6] >= out.pixels[7]);
    CHECK(out.pixels[6] >= out.pixels[8]);
    turned += out.pixels[7] != out.pixels[8];
  }
  CHECK(unchanged > 10);  // one in 16
  CHECK(unchanged < 45);
  CHECK(turned > 140);
  CHECK(turned < 260);
}

TEST_CASE("adjust_hsv: as Python's colorsys") {
  const auto adjusted = [](std::vector<uint8_t> rgb, double degrees, double saturation) {
    Image image(1, 1, 3);
    image.pixels = std::move(rgb);
    return adjust_hsv(image, degrees, saturation).pixels;
  };
  using Pixel = std::vector<uint8_t>;
  CHECK(adjusted({255, 0, 0}, 36, 1) == Pixel{255, 153, 0});
  CHECK(adjusted({200, 50, 50}, -36, 1) == Pixel{200, 50, 140});
  CHECK(adjusted({200, 50, 50}, 0, 1.5) == Pixel{200, 0, 0});
  CHECK(adjusted({10, 200, 100}, 30, 0.5) == Pixel{105, 200, 198});
  CHECK(adjusted({30, 60, 220}, 36, 1.25) == Pixel{97, 0, 220});
  CHECK(adjusted({90, 90, 90}, 20, 1.5) == Pixel{90, 90, 90});
  CHECK(adjusted({250, 120, 3}, -90, 1) == Pixel{244, 3, 250});
  CHECK(adjusted({12, 34, 56}, 180, 3) == Pixel{56, 28, 0});
  CHECK(adjusted({255, 255, 0}, 350, 0) == Pixel{255, 255, 255});
}

TEST_CASE("to_padded: the picture's planes, a colour and ignored labels around it") {
  SegmentationSample sample{Image(2, 1, 3), Image(2, 1, 1), 0};
  sample.image.pixels = {0, 51, 102, 153, 204, 255};
  sample.labels.pixels = {7, 8};
  std::vector<uint8_t> chw(3 * 2 * 3, 9);
  std::vector<int64_t> labels(2 * 3, 9);
  to_padded(sample, {1, 2, 3}, 3, 2, chw, labels);
  CHECK(chw == std::vector<uint8_t>{0, 153, 1, 1, 1, 1, 51, 204, 2, 2, 2, 2, 102, 255, 3, 3, 3, 3});
  CHECK(labels == std::vector<int64_t>{7, 8, 255, 255, 255, 255});
  CHECK_THROWS_AS(to_padded(sample, {}, 1, 2, chw, labels), pursuit::Error);
  CHECK_THROWS_AS(to_padded(sample, {}, 4, 2, chw, labels), pursuit::Error);  // chw has no room for it
  CHECK_THROWS_AS(to_padded(sample, {}, 3, 2, chw, std::span(labels).first(5)), pursuit::Error);
  sample.image.channels = 1;
  CHECK_THROWS_AS(to_padded(sample, {}, 3, 2, chw, labels), pursuit::Error);
}

TEST_CASE("resize_nearest: the pixel under each centre") {
  Image row(5, 1, 1);
  row.pixels = {10, 11, 12, 13, 14};
  CHECK(resize_nearest(row, 3, 1).pixels == std::vector<uint8_t>{10, 12, 14});
  CHECK(resize_nearest(row, 10, 2).pixels ==
        std::vector<uint8_t>{10, 10, 11, 11, 12, 12, 13, 13, 14, 14, 10, 10, 11, 11, 12, 12, 13, 13, 14, 14});
  CHECK(resize_nearest(row, 2, 1).pixels == std::vector<uint8_t>{11, 13});
  CHECK_THROWS_AS(resize_nearest(row, 0, 1), pursuit::Error);
}

TEST_CASE("loader: pairs come the same whatever the threads, and resume in mid-epoch") {
  const auto set = open_scenes(Split::train, 37, 48, 32, 1);
  SegmentationAugment augmentation;
  augmentation.crop_width = augmentation.crop_height = 24;
  augmentation.short_side = 0;
  const auto transform = [&](const SegmentationSample& sample, Random& random, std::span<uint8_t> chw,
                             std::span<int64_t> labels) {
    to_padded(augment(sample, augmentation, random), {}, 24, 24, chw, labels);
  };
  LoaderOptions options;
  options.batch_size = 8;
  options.height = options.width = 24;
  options.shuffle = true;
  options.seed = 4;
  const auto epoch = [&](int threads, int64_t from) {
    options.threads = threads;
    Loader loader(*set, transform, options);
    loader.start(2, from);
    std::vector<Batch> batches;
    for (Batch batch; loader.next(batch);) batches.push_back(batch);
    return batches;
  };
  const auto want = epoch(0, 0);
  REQUIRE(want.size() == 5);
  CHECK(want[0].labels.size() == 8 * 24 * 24);
  CHECK(want[4].labels.size() == 5 * 24 * 24);
  for (const int threads : {1, 3})
    for (const int64_t from : {0, 3}) {
      const auto got = epoch(threads, from);
      REQUIRE(got.size() == want.size() - size_t(from));
      for (size_t b = 0; b < got.size(); ++b) {
        CHECK(got[b].images == want[b + size_t(from)].images);
        CHECK(got[b].labels == want[b + size_t(from)].labels);
        CHECK(got[b].indices == want[b + size_t(from)].indices);
      }
    }
}
