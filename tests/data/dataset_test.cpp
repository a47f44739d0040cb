#include "data/dataset.h"

#include <doctest/doctest.h>
#include <unistd.h>
#include <zlib.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>
#include <thread>

#include "engine/base/error.h"
#include "tests/message_of.h"
#include "tests/needs.h"
#include "tests/temporary_folder.h"

using namespace pursuit::data;
namespace fs = std::filesystem;
using Bytes = std::vector<uint8_t>;

namespace {

// A folder that is removed with the test.
struct TempFolder : TemporaryFolder {
  std::string write(const std::string& name, const Bytes& bytes) const {
    fs::create_directories((path / name).parent_path());
    std::ofstream(path / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), long(bytes.size()));
    return (path / name).string();
  }
  std::string write(const std::string& name, const std::string& text) const {
    return write(name, Bytes(text.begin(), text.end()));
  }
  std::string write_gz(const std::string& name, const Bytes& bytes) const {
    const std::string file = (path / name).string();
    gzFile gz = gzopen(file.c_str(), "wb");
    gzwrite(gz, bytes.data(), unsigned(bytes.size()));
    gzclose(gz);
    return file;
  }
  // A picture of one colour.
  void write_picture(const std::string& name, int width, int height, uint8_t red) const {
    Image image(width, height, 3);
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) *image.at(x, y) = red;
    }
    fs::create_directories((path / name).parent_path());
    write_png((path / name).string(), image);
  }
};

bool has(const std::string& text, const std::string& part) {
  const bool found = text.find(part) != std::string::npos;
  if (!found) MESSAGE("not found: '", part, "' in: ", text);
  return found;
}

Bytes idx_header(uint32_t magic, const std::vector<uint32_t>& dims) {
  Bytes bytes;
  const auto put = [&](uint32_t v) {
    for (int shift : {24, 16, 8, 0}) bytes.push_back(uint8_t(v >> shift));
  };
  put(magic);
  for (uint32_t d : dims) put(d);
  return bytes;
}

// Three pictures of 2 rows and 4 columns, pixel p of picture i is 10 i + p.
Bytes tiny_images() {
  Bytes bytes = idx_header(0x803, {3, 2, 4});
  for (int i = 0; i < 3; ++i) {
    for (int p = 0; p < 8; ++p) bytes.push_back(uint8_t(10 * i + p));
  }
  return bytes;
}

Bytes tiny_labels(uint8_t last = 9) {
  Bytes bytes = idx_header(0x801, {3});
  bytes.insert(bytes.end(), {5, 0, last});
  return bytes;
}

const char* const kImages = "train-images-idx3-ubyte";
const char* const kLabels = "train-labels-idx1-ubyte";

// `count` records: label (first + i) % 10, red 1 + i at pixel 0, green 2, blue 3 there, zero elsewhere.
Bytes cifar_records(int count, int first = 0) {
  Bytes bytes;
  for (int i = 0; i < count; ++i) {
    Bytes record(3073, 0);
    record[0] = uint8_t((first + i) % 10);
    record[1] = uint8_t(1 + i);
    record[1 + 1024] = 2;
    record[1 + 2048 + 33] = 3;  // row 1, column 1
    bytes.insert(bytes.end(), record.begin(), record.end());
  }
  return bytes;
}

std::vector<int64_t> histogram(const Dataset& dataset) {
  std::vector<int64_t> counts(dataset.classes().size());
  for (int64_t i = 0; i < dataset.size(); ++i) ++counts.at(size_t(dataset.label(i)));
  return counts;
}

}  // namespace

TEST_CASE("idx: pictures, labels and names, gzipped or not") {
  for (const bool gz : {false, true}) {
    const TempFolder dir;
    if (gz) {
      dir.write_gz(std::string(kImages) + ".gz", tiny_images());
      dir.write_gz(std::string(kLabels) + ".gz", tiny_labels());
    } else {
      dir.write(kImages, tiny_images());
      dir.write(kLabels, tiny_labels());
    }
    const auto set = open_dataset(dir.path.string(), Split::train);
    REQUIRE(set->size() == 3);
    const Sample sample = set->get(2);
    CHECK(sample.label == 9);
    CHECK(sample.index == 2);
    CHECK(sample.image.width == 4);
    CHECK(sample.image.height == 2);
    CHECK(sample.image.channels == 1);
    CHECK(*sample.image.at(3, 1) == 27);
    CHECK(set->name(2) == std::string(kImages) + (gz ? ".gz#2" : "#2"));
    CHECK(set->classes().size() == 10);
    CHECK(set->classes()[5] == "5");
    CHECK(has(message_of([&] { open_dataset(dir.path.string(), Split::test); }),
              "holds no t10k-images-idx3-ubyte"));
  }
}

TEST_CASE("idx: class names beside the files widen the label range") {
  const TempFolder dir;
  dir.write(kImages, tiny_images());
  dir.write(kLabels, tiny_labels(11));
  CHECK(
      has(message_of([&] { open_idx(dir.path.string(), Split::train); }), "label 2 is out of range: got 11"));
  std::string names;
  for (int i = 0; i < 12; ++i) names += "class" + std::to_string(i) + "\r\n";
  dir.write("classes.txt", names);
  const auto set = open_idx(dir.path.string(), Split::train);
  CHECK(set->label(2) == 11);
  CHECK(set->classes().back() == "class11");
}

TEST_CASE("idx: hostile files give an error that names the file") {
  const TempFolder dir;
  const std::string path = dir.path.string();
  const auto open = [&] { return message_of([&] { open_dataset(path, Split::train); }); };
  dir.write(kImages, tiny_images());
  dir.write(kLabels, tiny_labels());
  REQUIRE(open() == "");

  SUBCASE("wrong magic number") {
    Bytes bytes = tiny_images();
    bytes[3] = 1;
    dir.write(kImages, bytes);
    CHECK(has(open(), "wrong magic number: got 2049, need 2051"));
  }
  SUBCASE("header cut off") {
    dir.write(kImages, Bytes{0, 0, 8});
    CHECK(has(open(), "ends inside its header"));
  }
  SUBCASE("empty file") {
    dir.write(kLabels, Bytes{});
    CHECK(has(open(), std::string(kLabels) + " ends inside its header"));
  }
  SUBCASE("truncated data") {
    Bytes bytes = tiny_images();
    bytes.resize(bytes.size() - 5);
    dir.write(kImages, bytes);
    CHECK(has(open(), std::string(kImages) + " is truncated: got 19 bytes of data, need 24"));
  }
  SUBCASE("too long") {
    Bytes bytes = tiny_images();
    bytes.push_back(0);
    dir.write(kImages, bytes);
    CHECK(has(open(), "is longer than the 24 bytes"));
  }
  SUBCASE("dimensions whose product overflows") {
    dir.write(kImages, idx_header(0x803, {0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}));
    CHECK(has(open(), "more than 8 GiB"));
  }
  SUBCASE("a large claim with little behind it") {
    dir.write(kImages, idx_header(0x803, {2000000, 64, 64}));
    CHECK(has(open(), "is truncated: got 0 bytes"));
  }
  SUBCASE("zero pictures") {
    dir.write(kImages, idx_header(0x803, {0, 28, 28}));
    CHECK(has(open(), "dimension 0 is 0"));
  }
  SUBCASE("counts differ") {
    Bytes bytes = idx_header(0x801, {2});
    bytes.insert(bytes.end(), {1, 2});
    dir.write(kLabels, bytes);
    CHECK(has(open(), "has 3 images"));
    CHECK(has(open(), "has 2 labels"));
  }
  SUBCASE("truncated gzip") {
    fs::remove(dir.path / kImages);
    // Noise does not compress, so half the file is half the data.
    Bytes bytes = idx_header(0x803, {100, 28, 28});
    uint32_t state = 1;
    for (int i = 0; i < 78400; ++i) bytes.push_back(uint8_t((state = state * 1664525 + 1013904223) >> 24));
    const std::string file = dir.write_gz(std::string(kImages) + ".gz", bytes);
    fs::resize_file(file, fs::file_size(file) / 2);
    CHECK(has(open(), std::string(kImages) + ".gz is damaged or truncated"));
  }
  SUBCASE("labels missing") {
    fs::remove(dir.path / kLabels);
    CHECK(has(open(), "holds no train-labels-idx1-ubyte"));
  }
  SUBCASE("two sets in one folder") {
    dir.write("letters-train-images-idx3-ubyte", tiny_images());
    CHECK(has(open(), "holds several sets"));
  }
}

TEST_CASE("cifar10: records, names, choice of files") {
  const TempFolder dir;
  dir.write("cifar-10-batches-bin/data_batch_1.bin", cifar_records(3));
  dir.write("cifar-10-batches-bin/data_batch_2.bin", cifar_records(2, 7));
  dir.write("cifar-10-batches-bin/test_batch_first.bin", cifar_records(1, 4));
  const std::string path = dir.path.string();  // the subfolder is found
  const auto train = open_dataset(path, Split::train);
  REQUIRE(train->size() == 5);
  CHECK(train->label(3) == 7);
  CHECK(train->name(2) == "data_batch_1.bin#2");
  CHECK(train->name(3) == "data_batch_2.bin#0");
  const Sample sample = train->get(1);
  CHECK(sample.image.at(0, 0)[0] == 2);
  CHECK(sample.image.at(0, 0)[1] == 2);
  CHECK(sample.image.at(1, 1)[2] == 3);
  CHECK(sample.image.at(1, 0)[0] == 0);
  CHECK(train->classes()[9] == "truck");
  CHECK(open_dataset(path, Split::test)->label(0) == 4);

  DatasetOptions held_out;
  held_out.test_files = {"data_batch_2.bin"};
  CHECK(open_dataset(path, Split::test, held_out)->size() == 2);
  CHECK(open_dataset(path, Split::train, held_out)->size() == 3);  // the held-out file is not trained on
  held_out.test_files = {"./data_batch_2.bin"};
  CHECK(open_dataset(path, Split::train, held_out)->size() == 3);
  held_out.train_files = {"data_batch_1.bin", "data_batch_2.bin"};
  CHECK(has(message_of([&] { open_dataset(path, Split::train, held_out); }),
            "--train-files: data_batch_2.bin is in --test-files already"));
  CHECK(open_dataset(path, Split::test, held_out)->size() == 2);  // of a trained model
  held_out.train_files = {"data_batch_1.bin", "data_batch_1.bin"};
  CHECK(has(message_of([&] { open_dataset(path, Split::train, held_out); }),
            "--train-files: data_batch_1.bin is in --train-files already"));
  held_out.train_files = {"data_batch_7.bin"};
  CHECK(has(message_of([&] { open_dataset(path, Split::train, held_out); }),
            "data_batch_7.bin': cannot be opened: No such file"));
}

TEST_CASE("cifar10: damaged files give an error that names the file") {
  const TempFolder dir;
  const std::string path = dir.path.string();
  const auto open = [&] { return message_of([&] { open_dataset(path, Split::train); }); };
  Bytes bytes = cifar_records(2);
  SUBCASE("missing bytes") {
    bytes.resize(bytes.size() - 73);
    dir.write("data_batch_1.bin", bytes);
    CHECK(has(open(), "data_batch_1.bin is damaged: got 6073 bytes"));
    CHECK(has(open(), "3000 too many or 73 missing"));
  }
  SUBCASE("label out of range") {
    bytes[3073] = 10;
    dir.write("data_batch_1.bin", bytes);
    CHECK(has(open(), "data_batch_1.bin: record 1 has label 10"));
  }
  SUBCASE("empty file") {
    dir.write("data_batch_1.bin", Bytes{});
    CHECK(has(open(), "data_batch_1.bin is empty"));
  }
  SUBCASE("python version") {
    dir.write("data_batch_1", bytes);
    CHECK(has(open(), "need CIFAR-10's binary version"));
  }
  SUBCASE("wrong number of class names") {
    dir.write("data_batch_1.bin", bytes);
    dir.write("batches.meta.txt", "airplane\nbird\n");
    CHECK(has(open(), "batches.meta.txt holds 2 class names"));
  }
}

TEST_CASE("image folder: sorted classes, shared by the splits") {
  const TempFolder dir;
  dir.write_picture("train/cat/b.PNG", 5, 4, 20);
  dir.write_picture("train/cat/a.png", 3, 4, 10);
  dir.write_picture("train/ant/deeper/c.png", 6, 4, 30);
  dir.write_picture("train/dog/d.png", 7, 4, 40);
  dir.write_picture("val/dog/e.png", 8, 4, 50);
  dir.write("train/cat/notes.txt", "not a picture");
  const std::string path = dir.path.string();
  const auto train = open_dataset(path, Split::train);
  REQUIRE(train->size() == 4);
  CHECK(train->classes() == std::vector<std::string>{"ant", "cat", "dog"});
  CHECK(train->name(1) == (dir.path / "train/cat/a.png").string());
  CHECK(train->get(1).label == 1);
  CHECK(train->get(1).image.width == 3);
  CHECK(train->get(2).image.pixels[0] == 20);
  const auto val = open_dataset(path, Split::test);
  REQUIRE(val->size() == 1);
  CHECK(val->label(0) == 2);

  dir.write_picture("val/emu/f.png", 8, 4, 60);
  CHECK(has(message_of([&] { open_dataset(path, Split::test); }),
            "1 of its 2 class folders are none of the 3 classes of the training data: emu"));
  DatasetOptions options;
  options.classes = {"emu", "dog"};
  CHECK(open_dataset(path, Split::test, options)->label(0) == 1);

  // A folder of classes itself can be tested on, not trained on.
  CHECK(open_dataset((dir.path / "val").string(), Split::test)->size() == 2);
  CHECK(has(message_of([&] { open_dataset((dir.path / "val").string(), Split::train); }),
            "holds no train folder"));
}

TEST_CASE("image folder: links to folders are followed, those without an end refused") {
  const TempFolder dir;
  dir.write_picture("data/train/cat/a.png", 3, 4, 10);
  dir.write_picture("data/val/cat/a.png", 3, 4, 10);
  dir.write_picture("data/val/dog/a.png", 3, 4, 10);
  dir.write_picture("store/b.png", 3, 4, 20);
  dir.write_picture("store/deeper/c.png", 3, 4, 30);
  const fs::path train = dir.path / "data/train";
  fs::create_directory_symlink("../../../store", train / "cat/more");
  fs::create_directory_symlink("../../store", train / "dog");
  const std::string path = (dir.path / "data").string();
  const auto set = open_dataset(path, Split::train);
  REQUIRE(set->size() == 5);
  CHECK(set->name(1) == (train / "cat/more/b.png").string());
  CHECK(set->name(2) == (train / "cat/more/deeper/c.png").string());
  CHECK(set->label(2) == 0);
  CHECK(set->label(4) == 1);
  CHECK(set->get(2).image.pixels[0] == 30);

  for (const char* target : {".", "..", "../..", "../cat/more/.."}) {
    const fs::path link = train / "cat/loop";
    fs::create_directory_symlink(target, link);
    CHECK(has(message_of([&] { open_dataset(path, Split::train); }), link.string() + " is a link to"));
    fs::remove(link);
  }
  fs::create_directory_symlink("../data/train/cat", dir.path / "store/back");  // by way of another folder
  CHECK(has(message_of([&] { open_dataset(path, Split::train); }), "cat/more/back is a link to"));
}

TEST_CASE("image folder: damaged pictures and empty classes") {
  const TempFolder dir;
  dir.write_picture("train/a/0.png", 4, 4, 10);
  dir.write("train/a/1.png", "this is no picture");
  dir.write("train/a/2.jpg", "nor is this");
  dir.write_picture("train/b/3.png", 4, 4, 40);
  dir.write("train/b/4.png", "");
  const std::string path = dir.path.string();
  const auto strict = open_dataset(path, Split::train);
  CHECK(has(message_of([&] { strict->get(1); }), "1.png"));
  CHECK(strict->skipped() == 0);

  DatasetOptions options;
  options.skip_bad = true;
  const auto lenient = open_dataset(path, Split::train, options);
  for (int round = 0; round < 2; ++round) {
    for (int64_t i : {1, 2}) {
      const Sample sample = lenient->get(i);
      CHECK(sample.image.pixels[0] == 40);
      CHECK(sample.label == 1);
      CHECK(sample.index == -1);
    }
    CHECK(lenient->get(4).image.pixels[0] == 10);  // the first follows the last
    CHECK(lenient->get(3).index == 3);
    CHECK(lenient->skipped() == 3);
  }
  // In a part of the set a picture of that part takes its place, here of 0 and 2: not 3, which may be held out.
  options.limit = 2;
  const auto part = open_dataset(path, Split::train, options);
  REQUIRE(part->size() == 2);
  CHECK(part->get(1).image.pixels[0] == 10);
  CHECK(part->get(1).index == -1);
  CHECK(part->get_part(1, [](int, int) { return Part{{0, 0, 2, 2}, 2, 2}; }).image.pixels[0] == 10);
  options.limit = 0;

  fs::create_directories(dir.path / "train/empty");
  CHECK(has(message_of([&] { open_dataset(path, Split::train); }), "empty holds no .jpg"));
  const auto with_empty = open_dataset(path, Split::train, options);
  CHECK(with_empty->skipped() == 1);
  CHECK(with_empty->classes().size() == 3);

  dir.write("train/a/0.png", "gone");
  dir.write("train/b/3.png", "gone");
  CHECK(
      has(message_of([&] { open_dataset(path, Split::train, options)->get(0); }), "none of its 5 pictures"));
}

TEST_CASE("image folder: a file that the system cannot open now is no damaged picture") {
  const TempFolder dir;
  for (const char* name : {"train/a/0.png", "train/a/1.png"}) dir.write_picture(name, 4, 4, 10);
  const auto set = open_dataset(dir.path.string(), Split::train, {.skip_bad = true});
  // A link to itself stands for a drive that is away. (With no file descriptors left, which is the same to the program,
  // the undefined behaviour sanitizer takes every exception for one of no type.)
  const fs::path picture = dir.path / "train/a/0.png";
  fs::rename(picture, dir.path / "away.png");
  fs::create_symlink("0.png", picture);
  const std::string message = message_of([&] { set->get(0); });
  fs::rename(dir.path / "away.png", picture);
  CHECK(has(message, "0.png': cannot be opened: Too many levels of symbolic links"));
  CHECK(set->skipped() == 0);
  CHECK(set->get(0).index == 0);
  fs::remove(picture);
  CHECK(set->get(0).index == -1);
  CHECK(set->skipped() == 1);
}

TEST_CASE("image folder: the cache keeps prepared pictures within its budget") {
  const TempFolder dir;
  for (int i = 0; i < 4; ++i) dir.write_picture("train/a/" + std::to_string(i) + ".png", 10, 10, uint8_t(i));
  int prepared = 0;
  DatasetOptions options;
  options.prepare = [&](Image image) {
    ++prepared;
    image.pixels[1] = 77;
    return image;
  };
  options.cache_bytes = 2 * 300;
  const auto set = open_dataset(dir.path.string(), Split::train, options);
  for (int round = 0; round < 3; ++round) {
    for (int64_t i = 0; i < 4; ++i) {
      const Image image = set->get(i).image;
      CHECK(image.pixels[0] == i);
      CHECK(image.pixels[1] == 77);
    }
  }
  CHECK(prepared == 2 + 3 * 2);  // two pictures kept, two decoded every round

  options.prepare = nullptr;
  options.cache_bytes = 1 << 20;
  const auto shared = open_dataset(dir.path.string(), Split::train, options);
  std::vector<int> wrong(3);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int64_t i = 0; i < 200; ++i) wrong[t] += shared->get(i % 4).image.pixels[0] != i % 4;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(3));
}

TEST_CASE("open_dataset says what it found where no layout fits") {
  const TempFolder dir;
  const std::string path = dir.path.string();
  dir.write("readme.md", "hello");
  fs::create_directories(dir.path / "stuff");
  const std::string text = message_of([&] { open_dataset(path, Split::train); });
  CHECK(has(text, "found 1 files (readme.md) and 1 folders (stuff)"));
  CHECK(has(text, "train-images-idx3-ubyte[.gz]"));
  CHECK(has(message_of([&] { open_dataset(path + "/nowhere", Split::train); }), "nowhere does not exist"));
  CHECK(
      has(message_of([&] { open_dataset(path + "/readme.md", Split::train); }), "readme.md is not a folder"));
  DatasetOptions options;
  options.format = "lmdb";
  CHECK(has(message_of([&] { open_dataset(path, Split::train, options); }), "unknown format: got lmdb"));
  options.format = "idx";
  CHECK(has(message_of([&] { open_dataset("", Split::train, options); }), "format idx needs a path"));
  options.format = "synthetic";
  CHECK(has(message_of([&] { open_dataset(path, Split::train, options); }),
            "format synthetic is drawn, but the data is to be that of " + path));
  options.format = "auto";
  options.test_files = {"x.bin"};
  CHECK(has(message_of([&] { open_dataset("", Split::train, options); }), "got format synthetic"));
}

TEST_CASE("a limit keeps samples evenly") {
  DatasetOptions options;
  options.limit = 7;
  const auto few = open_dataset("", Split::train, options);
  const auto all = open_dataset("", Split::train);
  REQUIRE(few->size() == 7);
  std::set<std::string> names;
  for (int64_t i = 0; i < 7; ++i) {
    const int64_t source = i * 20000 / 7;
    CHECK(few->name(i) == all->name(source));
    CHECK(few->label(i) == all->label(source));
    CHECK(few->get(i).image.pixels == all->get(source).image.pixels);
    CHECK(few->get(i).index == source);  // noise seeded by it does not depend on the limit
    names.insert(few->name(i));
  }
  CHECK(names.size() == 7);
  options.limit = 1000000;
  CHECK(open_dataset("", Split::test, options)->size() == 2000);
  options.limit = -1;
  CHECK(has(message_of([&] { open_dataset("", Split::test, options); }), "limit is negative"));
  options.limit = 0;
  options.first = -1;
  CHECK(has(message_of([&] { open_dataset("", Split::test, options); }), "first is negative"));
  const auto indices = [&](int64_t first, int64_t limit) {
    options.first = first;
    options.limit = limit;
    const auto set = open_dataset("", Split::test, options);
    std::vector<int64_t> found;
    for (int64_t i = 0; i < set->size(); ++i) found.push_back(set->get(i).index);
    return found;
  };
  CHECK(indices(3, 0) == std::vector<int64_t>{0, 1, 2});
  CHECK(indices(9, 3) == std::vector<int64_t>{0, 3, 6});
  CHECK(indices(3, 9) == std::vector<int64_t>{0, 1, 2});
}

TEST_CASE("the parts of a training set: each sample is held out or trains") {
  const auto indices = [](Split split, int64_t count) {
    DatasetOptions options;
    options.limit = 10;
    const auto part = part_of_training(open_dataset("", Split::train, options), split, count);
    std::vector<int64_t> found;
    for (int64_t i = 0; i < part->size(); ++i) found.push_back(part->get(i).index / 2000);
    return found;
  };
  CHECK(indices(Split::val, 3) == std::vector<int64_t>{0, 3, 6});
  CHECK(indices(Split::train, 3) == std::vector<int64_t>{1, 2, 4, 5, 7, 8, 9});
  CHECK(indices(Split::train, 9) == std::vector<int64_t>{9});
  for (const int64_t count : {-1, 0, 10})
    CHECK(has(message_of([&] { indices(Split::train, count); }), "cannot hold out"));
}

// The order in which the colours and sizes are drawn must not depend on the compiler.
TEST_CASE("synthetic: the pictures that gcc's build has always drawn") {
  constexpr double sums[] = {240459, 240277, 306257, 321027};
  const auto set = open_dataset("", Split::train);
  for (int64_t i = 0; i < 4; ++i) {
    const Bytes pixels = set->get(i).image.pixels;
    CHECK(double(std::accumulate(pixels.begin(), pixels.end(), int64_t(0))) ==
          doctest::Approx(sums[i]).epsilon(1e-4));
  }
}

TEST_CASE("synthetic: repeatable, balanced, different between splits and seeds") {
  const auto train = open_dataset("", Split::train), again = open_dataset("", Split::train);
  const auto test = open_dataset("", Split::test), other = open_synthetic(Split::train, 32, 1);
  CHECK(train->size() == 20000);
  CHECK(test->size() == 2000);
  for (int64_t count : histogram(*train)) CHECK(count == 2000);
  std::set<std::vector<uint8_t>> seen;
  for (int64_t i = 0; i < 50; ++i) {
    const Sample sample = train->get(i);
    CHECK(sample.image.pixels.size() == 32 * 32 * 3);
    CHECK(sample.image.pixels == again->get(i).image.pixels);
    CHECK(sample.image.pixels != other->get(i).image.pixels);
    seen.insert(sample.image.pixels);
    seen.insert(test->get(i).image.pixels);
  }
  CHECK(seen.size() == 100);
  CHECK(open_synthetic(Split::train, 64)->get(3).image.width == 64);
  CHECK_THROWS_AS(open_synthetic(Split::train, 4), pursuit::Error);
  CHECK_THROWS_AS(train->get(20000), pursuit::Error);
}

DATA_TEST_CASE("real Fashion-MNIST", "fashion-mnist") {
  const std::string path = shared_data("fashion-mnist");
  const auto train = open_dataset(path, Split::train), test = open_dataset(path, Split::test);
  CHECK(train->size() == 60000);
  CHECK(histogram(*train) == std::vector<int64_t>(10, 6000));
  CHECK(histogram(*test) == std::vector<int64_t>(10, 1000));
  // The published mean and standard deviation of the training pixels are 0.2860 and 0.3530.
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < train->size(); ++i) {
    for (uint8_t v : train->get(i).image.pixels) {
      sum += v / 255.0;
      squares += v / 255.0 * v / 255.0;
    }
  }
  const double mean = sum / (60000.0 * 784), deviation = std::sqrt(squares / (60000.0 * 784) - mean * mean);
  CHECK(mean == doctest::Approx(0.2860).epsilon(0.0005));
  CHECK(deviation == doctest::Approx(0.3530).epsilon(0.0005));
}

DATA_TEST_CASE("real CIFAR-10", "cifar10") {
  const std::string path = shared_data("cifar10");
  const auto train = open_dataset(path, Split::train), test = open_dataset(path, Split::test);
  CHECK(train->size() % 10000 == 0);
  CHECK(train->classes()[6] == "frog");
  CHECK(histogram(*train).size() == 10);
  if (test->size() == 1000) {
    CHECK(histogram(*test) == std::vector<int64_t>{103, 89, 100, 103, 90, 86, 112, 102, 106, 109});
  }
  CHECK(train->label(0) == 6);  // the first picture of batch 1 is a frog
  // Channel means of CIFAR-10 are 0.4914, 0.4822, 0.4465; a batch differs little.
  double mean[3] = {};
  for (int64_t i = 0; i < 10000; ++i) {
    const Image image = train->get(i).image;
    for (size_t p = 0; p < image.pixels.size(); ++p) mean[p % 3] += image.pixels[p] / 255.0 / 1024 / 10000;
  }
  CHECK(mean[0] == doctest::Approx(0.4914).epsilon(0.01));
  CHECK(mean[1] == doctest::Approx(0.4822).epsilon(0.01));
  CHECK(mean[2] == doctest::Approx(0.4465).epsilon(0.01));
}

DATA_TEST_CASE("real ImageNet layout", "imagenet-mini") {
  const std::string path = shared_data("imagenet-mini");
  const auto train = open_dataset(path, Split::train), val = open_dataset(path, Split::test);
  CHECK(histogram(*train) == std::vector<int64_t>(10, 150));
  CHECK(histogram(*val) == std::vector<int64_t>(10, 50));
  CHECK(val->classes()[0] == "n01440764");
  for (int64_t i = 0; i < val->size(); i += 25) {
    const Image image = val->get(i).image;
    CHECK(image.width == 224);
    CHECK(image.channels == 3);
  }
}
