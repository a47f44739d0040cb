#include "data/interactive/objects.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "data/augment.h"
#include "data/fingerprint.h"
#include "data/interactive/bmp.h"
#include "data/interactive/mask_files.h"
#include "data/loader.h"
#include "engine/base/error.h"
#include "engine/base/random.h"
#include "tests/data/raw_png.h"
#include "tests/message_of.h"
#include "tests/needs.h"
#include "tests/temporary_folder.h"

using namespace pursuit::data;
using pursuit::Random;
namespace fs = std::filesystem;

namespace {

using Bytes = std::vector<uint8_t>;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// A folder of pictures and masks.
struct Folder : TemporaryFolder {
  std::string str() const { return path.string(); }
  std::string at(const std::string& name) const {
    fs::create_directories((path / name).parent_path());
    return (path / name).string();
  }
  void bytes(const std::string& name, const Bytes& content) const {
    std::ofstream(at(name), std::ios::binary)
        .write(reinterpret_cast<const char*>(content.data()), long(content.size()));
  }
  void text(const std::string& name, const std::string& content) const { std::ofstream(at(name)) << content; }
  // A picture of one grey level.
  void picture(const std::string& name, int width, int height, uint8_t level = 0) const {
    Image image(width, height, 3);
    std::fill(image.pixels.begin(), image.pixels.end(), level);
    write_png(at(name), image);
  }
  void map(const std::string& name, int width, const Bytes& values) const {
    Image image(width, int(values.size()) / width, 1);
    image.pixels = values;
    write_png(at(name), image);
  }
};

// Opens for val with objects of one pixel or more.
std::unique_ptr<SegmentationDataset> open_small(const Folder& folder, ObjectOptions options = {}) {
  options.least_area = 1;
  return open_objects(folder.str(), Split::val, options);
}

std::string refusal_of(const Folder& folder, const ObjectOptions& options = {}, Split split = Split::val) {
  return message_of([&] { open_objects(folder.str(), split, options); });
}

// What follows the folder in the names of all objects.
std::vector<std::string> names_of(const SegmentationDataset& set, const Folder& folder) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < set.size(); ++i) names.push_back(set.name(i).substr(folder.str().size() + 1));
  return names;
}

// A BMP of these rows, which are stored as they are: the lowest first, or with a negative height the highest.
Bytes raw_bmp(int width, int height, int bits, const Bytes& palette, const Bytes& rows, int compression = 0) {
  Bytes out = {'B', 'M'};
  const auto put = [&](uint32_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) out.push_back(uint8_t(value >> (8 * i)));
  };
  const uint32_t pixels = uint32_t(54 + palette.size());
  for (const uint32_t v :
       {uint32_t(pixels + rows.size()), 0u, pixels, 40u, uint32_t(width), uint32_t(height)})
    put(v, 4);
  put(1, 2);
  put(uint32_t(bits), 2);
  for (const uint32_t v :
       {uint32_t(compression), uint32_t(rows.size()), 0u, 0u, uint32_t(palette.size() / 4), 0u})
    put(v, 4);
  out.insert(out.end(), palette.begin(), palette.end());
  out.insert(out.end(), rows.begin(), rows.end());
  return out;
}

// The components of equal labels by definition: the smallest pixel number that neighbours pass on to each
// other until nothing changes. Ignored pixels have -1.
std::vector<int> first_pixels(const Image& labels) {
  std::vector<int> first(labels.pixels.size());
  for (size_t i = 0; i < first.size(); ++i) first[i] = labels.pixels[i] == kIgnoredLabel ? -1 : int(i);
  for (bool changed = true; changed;) {
    changed = false;
    for (int y = 0; y < labels.height; ++y)
      for (int x = 0; x < labels.width; ++x)
        for (const auto& [u, v] : {std::pair{x + 1, y}, {x, y + 1}}) {
          if (u >= labels.width || v >= labels.height || *labels.at(x, y) != *labels.at(u, v)) continue;
          int &a = first[size_t(y * labels.width + x)], &b = first[size_t(v * labels.width + u)];
          changed |= a != b;
          a = b = std::min(a, b);
        }
  }
  return first;
}

}  // namespace

TEST_CASE("objects of label maps: the largest components of one class, as by definition") {
  const Folder folder;
  const int width = 13, height = 9;
  Random random(3, 0);
  for (const char* stem : {"a", "b", "c", "d"}) {
    folder.picture(std::string("val/") + stem + ".png", width, height, 7);
    Bytes labels;
    for (int i = 0; i < width * height; ++i) labels.push_back(random.flip(0.8) ? 3 : random.flip() ? 8 : 11);
    folder.map(std::string("valannot/") + stem + ".png", width, labels);
  }
  const auto maps = open_segmentation(folder.str(), Split::val);
  for (const int64_t most : {1, 2, 100})
    for (const int64_t least : {1, 2, 5}) {
      CAPTURE(most);
      CAPTURE(least);
      const auto set = open_objects(folder.str(), Split::test, {.least_area = least, .most_a_picture = most});
      CHECK(set->split() == Split::val);
      CHECK(set->classes() == std::vector<std::string>{"background", "object"});
      CHECK(set->colours().size() == 2);
      int64_t at = 0;
      for (int64_t picture = 0; picture < maps->size(); ++picture) {
        const std::vector<int> first = first_pixels(maps->get(picture).labels);
        std::map<int, int64_t> area;
        for (const int f : first) ++area[f];
        area.erase(-1);
        std::vector<std::pair<int64_t, int>> wanted;  // -area, first pixel
        for (const auto& [f, n] : area)
          if (n >= least) wanted.push_back({-n, f});
        std::sort(wanted.begin(), wanted.end());
        wanted.resize(std::min(wanted.size(), size_t(most)));
        for (size_t rank = 0; rank < wanted.size(); ++rank, ++at) {
          REQUIRE(at < set->size());
          CHECK(set->name(at) == maps->name(picture) + "#" + std::to_string(rank + 1));
          CHECK(set->label_file(at) == maps->label_file(picture));
          const SegmentationSample sample = set->get(at);
          CHECK(sample.index == at);
          CHECK(sample.image.pixels == Bytes(size_t(width * height * 3), 7));
          CHECK(set->labels(at).pixels == sample.labels.pixels);
          REQUIRE(sample.labels.pixels.size() == first.size());
          bool same = true;
          for (size_t i = 0; i < first.size(); ++i)
            same &= sample.labels.pixels[i] ==
                    (first[i] < 0 ? kIgnoredLabel : uint8_t(first[i] == wanted[rank].second));
          CHECK(same);
        }
      }
      CHECK(at == set->size());
      CHECK(at > 0);
    }
}

TEST_CASE("objects of label maps: ade20k and folders with classes too, first and limit count objects") {
  const Folder ade, folder;
  ade.picture("images/validation/a.png", 3, 1);
  ade.map("annotations/validation/a.png", 3, {0, 1, 1});
  ade.text("objectInfo150.txt", "Idx\tRatio\tTrain\tVal\tName\n1\t0.1\t1\t1\twall\n");
  CHECK(open_small(ade)->get(0).labels.pixels == Bytes{255, 1, 1});
  for (int i = 0; i < 10; ++i) {
    folder.picture("images/val/" + std::to_string(i) + ".png", 3, 1);
    folder.map("labels/val/" + std::to_string(i) + ".png", 3, {0, 1, 1});
  }
  folder.text("classes.txt", "sky\nroad\n");
  const auto all = open_small(folder);
  REQUIRE(all->size() == 20);
  CHECK(all->get(0).labels.pixels == Bytes{0, 1, 1});
  CHECK(all->get(1).labels.pixels == Bytes{1, 0, 0});
  const auto few = open_small(folder, {.first = 10, .limit = 3});
  REQUIRE(few->size() == 3);
  CHECK(few->name(1) == all->name(3));
  CHECK(few->get(2).index == 6);
  CHECK(few->get(2).labels.pixels == all->get(6).labels.pixels);
  CHECK(open_objects(folder.str(), Split::val, {.least_area = 2})->size() == 10);
  CHECK(has(refusal_of(folder), "holds no object of at least 400 pixels for the split val, in 10 pictures"));
  CHECK(has(refusal_of(folder, {.least_area = 0}), "least_area: got 0, need 1 or more"));
  CHECK(has(refusal_of(folder, {.most_a_picture = 0}), "most_a_picture: got 0, need 1 or more"));
  CHECK(has(refusal_of(folder, {.limit = -1, .least_area = 1}), "limit is negative"));
  CHECK(has(refusal_of(folder, {.noise = 0.1}), "noise is of drawn scenes alone"));
  CHECK(has(refusal_of(folder, {.format = "camvid"}), "val"));
  CHECK(has(
      refusal_of(folder, {.format = "coco"}),
      "unknown format: got coco, need auto, ade20k, camvid, coco_stuff, davis, folder, masks or materials"));
}

TEST_CASE("objects of coco_stuff: a thing's pixels of one instance") {
  const Folder folder;
  folder.picture("val_img/a.png", 6, 2);
  folder.map("val_label/a.png", 6,
             {0, 0, 0, 90, 90, 91,  //
              0, 0, 0, 90, 181, 255});
  folder.map("val_inst/a.png", 6,
             {0, 1, 1, 1, 1, 91,  //
              0, 1, 1, 2, 181, 255});
  const auto set = open_small(folder, {.most_a_picture = 1});  // which is of components alone
  CHECK(names_of(*set, folder) ==
        std::vector<std::string>{"val_img/a.png#1", "val_img/a.png#2", "val_img/a.png#3", "val_img/a.png#4"});
  CHECK(set->label_file(0) == folder.at("val_inst/a.png"));
  CHECK(set->get(0).labels.pixels == Bytes{0, 1, 1, 0, 0, 0, 0, 1, 1, 0, 0, 255});
  CHECK(set->get(1).labels.pixels == Bytes{1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 255});
  CHECK(set->get(2).labels.pixels == Bytes{0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 255});
  CHECK(set->get(3).labels.pixels == Bytes{0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 255});

  folder.picture("val_img/b.png", 1, 1);
  folder.map("val_label/b.png", 1, {5});
  CHECK(has(refusal_of(folder),
            "val_img/b.png has no map of instances: need " + folder.str() + "/val_inst/b.png"));
  CHECK(open_small(folder, {.skip_bad = true})->size() == 4);
  CHECK(open_small(folder, {.skip_bad = true})->skipped() == 1);
  folder.map("val_inst/b.png", 1, {5, 5});
  CHECK(has(refusal_of(folder), "val_inst/b.png has 1 x 2 pixels, but its picture"));
  folder.map("val_inst/b.png", 1, {5});
  CHECK(open_small(folder)->size() == 5);
  folder.text("classes.txt", "person\nignore\n");
  CHECK(has(refusal_of(folder), "classes.txt names 1 classes, need the 182"));
  fs::remove_all(folder.path / "val_inst");
  CHECK(has(refusal_of(folder), "train_img with train_label and train_inst (coco_stuff)"));
}

TEST_CASE("objects of davis: every number of a mask, in all sequences") {
  const Folder folder;
  const std::string images = "JPEGImages/480p/", masks = "Annotations/480p/";
  folder.picture(images + "bear/00000.png", 3, 1);
  folder.map(masks + "bear/00000.png", 3, {0, 255, 255});  // 2016: one object
  folder.picture(images + "bear/00001.png", 3, 1);
  folder.map(masks + "bear/00001.png", 3, {0, 0, 0});
  folder.picture(images + "cows/00000.png", 4, 1);
  folder.bytes(masks + "cows/00000.png",  // 2017: numbers with a palette
               raw_png(4, 1, 8, 3, {0, 0, 0, 128, 0, 0, 0, 128, 0}, {0, 1, 2, 0, 2}));
  const auto set = open_small(folder);
  CHECK(set->split() == Split::test);
  CHECK(names_of(*set, folder) == std::vector<std::string>{images + "bear/00000.png#1",
                                                           images + "cows/00000.png#1",
                                                           images + "cows/00000.png#2"});
  CHECK(set->get(0).labels.pixels == Bytes{0, 1, 1});
  CHECK(set->get(1).labels.pixels == Bytes{0, 1, 0, 1});
  CHECK(set->get(2).labels.pixels == Bytes{1, 0, 0, 0});
  CHECK(has(refusal_of(folder, {}, Split::train), "no split train: open it for val or test"));
  fs::create_directories(folder.path / (images + "dogs"));
  CHECK(has(refusal_of(folder), masks + "dogs is missing: a sequence needs pictures and masks"));
  CHECK(open_small(folder, {.skip_bad = true})->skipped() == 1);
  fs::remove_all(folder.path / (images + "dogs"));
  fs::remove(folder.path / (masks + "cows/00000.png"));
  CHECK(has(refusal_of(folder), images + "cows/00000.png has no mask: need " + folder.str() + "/" + masks +
                                    "cows/00000.png, or skip bad data"));
}

TEST_CASE("objects of masks: the four layouts, several objects of a picture") {
  const Bytes mask = {0, 255, 1, 128}, wanted = {0, 1, 1, 255};
  const std::pair<std::string, std::string> layouts[] = {{"images/a.png", "masks/a.png"},
                                                         {"img/a.png", "gt/a.png"},
                                                         {"data_GT/a.png", "boundary_GT/a.png"},
                                                         {"a_in.png", "a_gt.png"}};
  for (const auto& layout : layouts) {
    CAPTURE(layout.first);
    const Folder folder;
    folder.picture(layout.first, 4, 1, 3);
    folder.map(layout.second, 4, mask);
    const auto set = open_small(folder);
    CHECK(names_of(*set, folder) == std::vector<std::string>{layout.first});
    CHECK(set->label_file(0) == folder.at(layout.second));
    CHECK(set->get(0).labels.pixels == wanted);
    CHECK(set->get(0).image.pixels == Bytes(12, 3));
    CHECK(open_objects(folder.str(), Split::test, {.least_area = 1})->split() == Split::test);
    CHECK(has(refusal_of(folder, {}, Split::train), "no split train"));
  }
  const Folder several;
  several.picture("images/a.png", 2, 1);
  several.picture("images/b#1.png", 2, 1);
  for (const char* name : {"a#10", "a#2", "b#1"})
    several.map(std::string("masks/") + name + ".png", 2, {0, 9});
  several.map("masks/a#3.png", 2, {0, 0});  // no object
  const auto set = open_small(several);
  CHECK(names_of(*set, several) ==
        std::vector<std::string>{"images/a.png#2", "images/a.png#10", "images/b#1.png"});
  CHECK(set->label_file(1) == several.at("masks/a#10.png"));
  // Names and files identify the data.
  const std::string before = fingerprint(*set, several.str());
  several.map("masks/a#2.png", 2, {0, 9, 0, 9, 7, 7, 3, 2, 1, 1});
  CHECK(fingerprint(*set, several.str()) != before);
}

TEST_CASE("objects of masks: levels of grey, colours and palettes") {
  const Folder folder;
  const auto levels = [&](const std::string& name, const Bytes& file) {
    folder.bytes(name, file);
    return read_mask(folder.at(name)).pixels;
  };
  CHECK(levels("rgb.png", raw_png(2, 1, 8, 2, {}, {0, 128, 128, 128, 9, 9, 9})) == Bytes{128, 9});
  CHECK(levels("rgba.png", raw_png(1, 1, 8, 6, {}, {0, 7, 7, 7, 0})) == Bytes{7});
  CHECK(levels("bits.png", raw_png(3, 1, 1, 0, {}, {0, 0b01000000})) == Bytes{0, 1, 0});
  // A grey palette holds levels, as converters write them; numbers of coloured ones are objects.
  CHECK(levels("grey.png", raw_png(2, 1, 8, 3, {0, 0, 0, 128, 128, 128}, {0, 1, 0})) == Bytes{128, 0});
  CHECK(levels("palette.png", raw_png(2, 1, 8, 3, {0, 0, 0, 128, 0, 0}, {0, 1, 0})) == Bytes{1, 0});
  CHECK(levels("grey.bmp", raw_bmp(1, 2, 8, {0, 0, 0, 0, 128, 128, 128, 0}, {1, 0, 0, 0, 0, 0, 0, 0})) ==
        Bytes{0, 128});
  const auto refused = [&](const std::string& name, const Bytes& file) {
    return message_of([&] { levels(name, file); });
  };
  CHECK(has(refused("red.png", raw_png(2, 1, 8, 2, {}, {0, 0, 0, 0, 255, 0, 0})),
            "red.png: the pixel at x 1, y 0 has the colour 255 0 0, but masks are grey"));
  CHECK(has(refused("deep.png", raw_png(1, 1, 16, 0, {}, {0, 1, 2})), "deep.png: got 16 bits a pixel"));
  CHECK(has(refused("mask.jpg", encode_jpeg(Image(8, 8, 1), 90)), "mask.jpg: not a PNG file"));
  CHECK(has(refused("cut.png", {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'}), "cut.png: truncated PNG"));
}

TEST_CASE("objects of masks: missing, damaged and ill-fitting files, and what skip_bad makes of them") {
  const Folder folder;
  for (const char* stem : {"a", "b", "c"}) {
    folder.picture(std::string("img/") + stem + ".png", 2, 1, uint8_t(stem[0]));
    folder.map(std::string("gt/") + stem + ".png", 2, {0, 1});
  }
  CHECK(open_small(folder)->size() == 3);
  folder.map("gt/b.png", 1, {0, 1});
  const auto strict = open_small(folder);  // sizes are compared when a picture is decoded
  CHECK(has(message_of([&] { strict->get(1); }), "gt/b.png has 1 x 2 pixels, but its picture"));
  const auto lenient = open_small(folder, {.skip_bad = true, .cache_bytes = 8});  // of one object
  CHECK(lenient->get(0).index == 0);
  CHECK(lenient->get(1).index == -1);
  CHECK(lenient->get(1).image.pixels[0] == 'c');
  CHECK(lenient->skipped() == 1);
  fs::remove(folder.path / "gt/a.png");
  CHECK(lenient->get(0).labels.pixels == Bytes{0, 1});  // from memory
  CHECK(
      has(refusal_of(folder), "img/a.png has no mask: need " + folder.str() + "/gt/a.png, or skip bad data"));
  folder.bytes("gt/a.png", {});
  CHECK(has(refusal_of(folder), "gt/a.png"));
  folder.map("gt/lonely#2.png", 2, {0, 1});
  CHECK(has(refusal_of(folder), "gt/lonely#2.png has no picture: need " + folder.str() + "/img/lonely.jpg"));
  const auto rest = open_small(folder, {.skip_bad = true});
  CHECK(names_of(*rest, folder) == std::vector<std::string>{"img/b.png", "img/c.png"});
  CHECK(rest->skipped() == 2);
  fs::remove(folder.path / "gt/lonely#2.png");
  folder.map("gt/a.png", 2, {0, 128});
  folder.map("gt/b.png", 2, {0, 0});
  const auto one = open_small(folder);
  CHECK(names_of(*one, folder) == std::vector<std::string>{"img/c.png"});
  folder.map("gt/c.png", 2, {0, 0});
  CHECK(has(message_of([&] { one->get(0); }), "gt/c.png has 0 objects, fewer than when the data was opened"));
  CHECK(has(message_of([&] { open_small(folder); }), "holds no object of at least 1 pixels"));
  folder.picture("img/c.bmp", 2, 1);
  CHECK(has(refusal_of(folder), "img/c.png has the same name as"));
  CHECK(has(message_of([&] { open_objects(folder.str() + "/img", Split::val, {.format = "masks"}); }),
            "img has no pictures with masks"));
}

TEST_CASE("bmp: rows from below or above, palettes, colours and damage") {
  // Blue, green, red; rows are filled to four bytes.
  CHECK(decode_bmp(raw_bmp(1, 2, 24, {}, {1, 2, 3, 0, 4, 5, 6, 0}), "a").pixels == Bytes{6, 5, 4, 3, 2, 1});
  CHECK(decode_bmp(raw_bmp(1, -2, 24, {}, {1, 2, 3, 0, 4, 5, 6, 0}), "a").pixels == Bytes{3, 2, 1, 6, 5, 4});
  CHECK(decode_bmp(raw_bmp(1, 1, 32, {}, {1, 2, 3, 4}), "a").pixels == Bytes{3, 2, 1});
  const Bytes palette = {0, 0, 0, 0, 10, 20, 30, 0};
  const Bytes two = {30, 20, 10, 0, 0, 0};
  CHECK(decode_bmp(raw_bmp(2, 1, 8, palette, {1, 0, 0, 0}), "a").pixels == two);
  CHECK(decode_bmp(raw_bmp(2, 1, 4, palette, {0x10, 0, 0, 0}), "a").pixels == two);
  CHECK(decode_bmp(raw_bmp(2, 1, 1, palette, {0x80, 0, 0, 0}), "a").pixels == two);
  const auto refused = [](Bytes file, size_t size = 1000) {
    file.resize(std::min(size, file.size()));
    return message_of([&] { decode_bmp(file, "a.bmp"); });
  };
  const Bytes good = raw_bmp(2, 1, 8, palette, {1, 0, 0, 0});
  CHECK(refused(good).empty());
  CHECK(has(refused(good, good.size() - 1), "a.bmp: truncated BMP: 2 x 1 pixels do not fit"));
  CHECK(has(refused(good, 53), "a.bmp: truncated BMP: the header"));
  CHECK(has(refused({'P', '5'}), "a.bmp: not a BMP"));
  CHECK(has(refused(raw_bmp(2, 1, 8, palette, {2, 0, 0, 0})), "x 0, y 0 has the colour 2 of 2"));
  CHECK(has(refused(raw_bmp(2, 1, 8, palette, {1, 0, 0, 0}, 1)), "compression 1"));
  CHECK(has(refused(raw_bmp(2, 1, 16, {}, {1, 0, 0, 0})), "16 bits a pixel"));
  CHECK(has(refused(raw_bmp(-2, 1, 8, palette, {1, 0, 0, 0})), "need 1 to 64 megapixels"));
  CHECK(has(refused(raw_bmp(2, INT32_MIN, 8, palette, {1, 0, 0, 0})), "need 1 to 64 megapixels"));
  Bytes long_palette = good;
  long_palette[46] = 200;
  CHECK(has(refused(long_palette), "palette of 200 colours"));

  const Folder folder;
  folder.bytes("data_GT/a.bmp", raw_bmp(1, 2, 24, {}, {1, 2, 3, 0, 4, 5, 6, 0}));
  folder.bytes("boundary_GT/a.BMP", raw_bmp(1, 2, 24, {}, {0, 0, 0, 0, 255, 255, 255, 0}));
  const SegmentationSample sample = open_small(folder)->get(0);
  CHECK(sample.image.pixels == Bytes{6, 5, 4, 3, 2, 1});
  CHECK(sample.labels.pixels == Bytes{1, 0});
}

TEST_CASE("material scenes: sizes, shares, distinct, and the same from every thread") {
  const auto train = open_objects("", Split::train), val = open_objects("", Split::val),
             test = open_objects("", Split::test);
  CHECK(train->size() == 2000);
  CHECK(val->size() == 200);
  CHECK(test->size() == 200);
  CHECK(train->split() == Split::train);
  CHECK(test->name(7) == "material-test#7");
  std::set<Bytes> pictures;
  for (const auto* set : {train.get(), val.get(), test.get()})
    for (int64_t i = 0; i < 200; ++i) {
      const SegmentationSample scene = set->get(i);
      REQUIRE(scene.image.width == 32);
      REQUIRE(scene.image.height == 32);
      REQUIRE(scene.labels.pixels.size() == 1024);
      const auto object = std::count(scene.labels.pixels.begin(), scene.labels.pixels.end(), 1);
      CHECK(object >= 52);  // 5 % of 1024
      CHECK(object <= 614);
      CHECK(std::count(scene.labels.pixels.begin(), scene.labels.pixels.end(), 0) == 1024 - object);
      pictures.insert(scene.image.pixels);
    }
  CHECK(pictures.size() == 600);
  CHECK(open_material_scenes(Split::val, 0, 0, 1)->get(3).image.pixels != val->get(3).image.pixels);
  CHECK(open_objects("", Split::val, {.limit = 9})->size() == 9);
  CHECK_THROWS_AS(val->get(200), pursuit::Error);
  CHECK_THROWS_AS(open_material_scenes(Split::val, -1), pursuit::Error);
  CHECK(has(message_of([] { open_objects("", Split::val, {.noise = 2}); }), "noise: got 2"));

  const auto transform = [](const SegmentationSample& sample, Random&, std::span<uint8_t> chw,
                            std::span<int64_t> labels) {
    to_planes(sample.image, chw);
    std::copy(sample.labels.pixels.begin(), sample.labels.pixels.end(), labels.begin());
  };
  const auto batch_of = [&](int threads) {
    LoaderOptions options;
    options.batch_size = 16;
    options.shuffle = true;
    options.threads = threads;
    Loader loader(*train, transform, options);
    loader.start(1);
    Batch batch;
    REQUIRE(loader.next(batch));
    return batch;
  };
  const Batch serial = batch_of(0), parallel = batch_of(3);
  CHECK(serial.images == parallel.images);
  CHECK(serial.labels == parallel.labels);
}

TEST_CASE("material scenes: noise leaves the scene as it is, a colour alone does not give the object away") {
  const auto clean = open_material_scenes(Split::test), noisy = open_material_scenes(Split::test, 0, 0.15);
  double squares = 0, intersection = 0, either = 0;
  int64_t levels = 0;
  for (int64_t i = 0; i < 50; ++i) {
    const SegmentationSample a = clean->get(i), b = noisy->get(i);
    CHECK(a.labels.pixels == b.labels.pixels);
    double mean[2][3] = {}, count[2] = {};
    for (size_t p = 0; p < a.labels.pixels.size(); ++p) {
      const size_t is = a.labels.pixels[p];
      ++count[is];
      for (size_t c = 0; c < 3; ++c) {
        const double x = a.image.pixels[3 * p + c], y = b.image.pixels[3 * p + c];
        mean[is][c] += x;
        if (x < 64 || x > 191) continue;  // hardly cut off at 0 and 1
        squares += (x - y) * (x - y), ++levels;
      }
    }
    // Every pixel goes to the nearer of the mean colours of the object and of all else.
    for (size_t p = 0; p < a.labels.pixels.size(); ++p) {
      double distance[2] = {};
      for (size_t is = 0; is < 2; ++is)
        for (size_t c = 0; c < 3; ++c) {
          const double d = a.image.pixels[3 * p + c] - mean[is][c] / count[is];
          distance[is] += d * d;
        }
      const bool found = distance[1] < distance[0], is = a.labels.pixels[p];
      intersection += found && is, either += found || is;
    }
  }
  REQUIRE(levels > 10000);
  REQUIRE(either > 0);
  // Levels are cut off at 0 and 1, so a little of the noise is lost.
  const double added = std::sqrt(squares / double(levels)) / 255;
  CHECK(added > 0.12);
  CHECK(added < 0.16);
  const double iou = intersection / either;
  CHECK(iou > 0.4);
  CHECK(iou < 0.75);
}

// The counts of the two sets below were found by a separate program that decodes the PNGs and joins equal
// neighbours by union-find.
DATA_TEST_CASE("objects of the real CamVid", "camvid") {
  const auto val = open_objects(shared_data("camvid"), Split::val);
  CHECK(val->size() == 303);
  const auto area = [&](int64_t i) {
    const Image labels = val->labels(i);
    return std::count(labels.pixels.begin(), labels.pixels.end(), 1);
  };
  CHECK(has(val->name(2), "/val/0016E5_07959.jpg#3"));
  CHECK(area(0) == 51252);
  CHECK(area(1) == 49059);
  CHECK(area(2) == 25402);
  const SegmentationSample sample = val->get(150);
  CHECK(sample.image.width == 480);
  CHECK(std::count(sample.labels.pixels.begin(), sample.labels.pixels.end(), 1) == 45028);
}

DATA_TEST_CASE("objects of a real COCO-Stuff folder", "coco_stuff") {
  const auto train = open_objects(shared_data("coco_stuff"), Split::train),
             val = open_objects(shared_data("coco_stuff"), Split::test);
  CHECK(train->size() == 59);
  CHECK(val->size() == 43);
  CHECK(val->split() == Split::val);
  const int64_t areas[] = {13136, 5772, 2755, 2232, 2127, 2092, 2048, 1689, 1034, 413};
  for (int64_t i = 0; i < 10; ++i) {
    const Image labels = val->get(i).labels;
    CHECK(std::count(labels.pixels.begin(), labels.pixels.end(), 1) == areas[i]);
  }
}

DATA_TEST_CASE("objects of real DAVIS frames and of a GrabCut picture", "interactive") {
  const auto davis = open_objects(shared_data("interactive/DAVIS"), Split::test);
  CHECK(davis->size() == 10);
  CHECK(has(davis->name(9), "JPEGImages/480p/car-shadow/00036.jpg#1"));
  const SegmentationSample frame = davis->get(9);
  CHECK(frame.image.width == 854);
  CHECK(std::count(frame.labels.pixels.begin(), frame.labels.pixels.end(), 1) == 13459);
  const auto grabcut = open_objects(shared_data("interactive/grabcut-sample"), Split::val);
  REQUIRE(grabcut->size() == 1);
  const SegmentationSample sample = grabcut->get(0);
  CHECK(sample.labels.width == 481);
  CHECK(std::count(sample.labels.pixels.begin(), sample.labels.pixels.end(), 1) == 22864);
}
