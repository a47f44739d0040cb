#include "data/shards.h"

#include <doctest/doctest.h>
#include <fcntl.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "data/fingerprint.h"
#include "data/jpeg_turbo.h"
#include "data/resize.h"
#include "data/shard_file.h"
#include "engine/base/error.h"
#include "engine/base/random.h"
#include "engine/files/locked_file.h"
#include "tests/message_of.h"
#include "tests/needs.h"
#include "tests/temporary_folder.h"

using namespace pursuit::data;
using pursuit::LockedFile;

namespace {

namespace fs = std::filesystem;

Image drawn(int width, int height, int seed) {
  Image image(width, height, 3);
  pursuit::Random random{uint64_t(seed)};
  for (size_t i = 0; i < image.pixels.size(); ++i)
    image.pixels[i] = uint8_t(60 * seed + i / 7 + random.below(9));
  return image;
}

void write(const fs::path& path, const std::vector<uint8_t>& bytes) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), std::streamsize(bytes.size()));
}

// Three classes, JPEG and PNG, of which the test split has two.
void write_folder(const fs::path& root) {
  int seed = 0;
  for (const char* c : {"ant", "bee", "cat"})
    for (int i = 0; i < 5; ++i, ++seed) {
      const Image image = drawn(40 + 7 * i, 60 - 5 * i, seed);
      const std::string name = std::to_string(i);
      write(root / "train" / c / (name + (i % 2 ? ".png" : ".jpg")),
            i % 2 ? encode_png(image) : encode_jpeg(image, 90));
      if (seed % 15 > 4)
        write(root / "val" / c / (name + ".jpg"), encode_jpeg(drawn(50, 41, seed + 100), 80));
    }
}

struct Folder {
  TemporaryFolder files, shards;
  Folder() {
    write_folder(files.path);
    fs::create_directory(out());
  }
  std::string root() const { return files.path.string(); }
  std::string out() const { return (shards.path / "packed").string(); }
  std::string shard(const char* name) const { return (fs::path(out()) / name).string(); }
  std::unique_ptr<Dataset> source(Split split, const DatasetOptions& options = {}) const {
    return open_dataset(root(), split, options);
  }
  PackOptions options(Packing packing, int64_t shard_bytes) const {
    return {.packing = packing, .shorter = 32, .shard_bytes = shard_bytes, .root = root(), .source = "0011"};
  }
  Packed pack(Split split, Packing packing = Packing::files, int64_t shard_bytes = 9000) const {
    return pursuit::data::pack(*source(split), split, out(), options(packing, shard_bytes));
  }
};

void flip(const std::string& path, int64_t at) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  const int64_t place = at >= 0 ? at : int64_t(fs::file_size(path)) + at;
  file.seekg(place);
  const char byte = char(file.get() ^ 0x10);
  file.seekp(place);
  file.put(byte);
}

}  // namespace

TEST_CASE("shards of files give the pictures of the folder, bit for bit") {
  const Folder folder;
  for (const Split split : {Split::train, Split::test}) {
    const Packed packed = folder.pack(split);
    CHECK(packed.complete);
    CHECK(packed.shards > 1);
    CHECK(packed.kept == 0);
    const auto source = folder.source(split), set = open_dataset(folder.out(), split);
    REQUIRE(set->size() == source->size());
    CHECK(packed.pictures == source->size());
    CHECK(set->classes() == source->classes());
    CHECK(set->present_classes() == source->present_classes());
    CHECK(set->test_split() == (split == Split::test ? "val" : source->test_split()));
    const auto choose = [](int width, int height) { return Part{{3, 4, width / 2, height / 2}, 8, 8}; };
    for (int64_t i = source->size() - 1; i >= 0; --i) {
      CHECK(set->label(i) == source->label(i));
      const Sample a = source->get(i), b = set->get(i);
      CHECK(a.index == b.index);
      CHECK(a.label == b.label);
      CHECK(a.image.width == b.image.width);
      CHECK(a.image.pixels == b.image.pixels);
      CHECK(source->get_part(i, choose).image.pixels == set->get_part(i, choose).image.pixels);
      CHECK(set->name(i).find(fs::path(source->name(i)).lexically_relative(folder.root()).string()) !=
            std::string::npos);
    }
  }
}

TEST_CASE("raw shards have the pictures with the shorter side cut to the limit") {
  const Folder folder;
  folder.pack(Split::train, Packing::raw);
  const auto source = folder.source(Split::train), set = open_dataset(folder.out(), Split::train);
  REQUIRE(set->size() == source->size());
  for (int64_t i = 0; i < set->size(); ++i) {
    const Image image = set->get(i).image;
    CHECK(std::min(image.width, image.height) == 32);
    CHECK(image.pixels == resize_shorter(source->get(i).image, 32, Filter::bicubic).pixels);
    const Sample part = set->get_part(i, [](int, int) { return Part{{5, 6, 20, 13}}; });
    CHECK(part.image.pixels == crop(image, 5, 6, 20, 13).pixels);
  }
}

TEST_CASE("shards are read by several threads at once, in any order") {
  const Folder folder;
  folder.pack(Split::train);
  const auto source = folder.source(Split::train), set = open_dataset(folder.out(), Split::train);
  std::vector<std::thread> threads;
  std::vector<int> wrong(3);
  for (size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t] {
      for (int64_t i = 0; i < set->size(); ++i) {
        const int64_t k = (i * 7 + int64_t(t)) % set->size();
        wrong[t] += set->get(k).image.pixels != source->get(k).image.pixels;
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK(wrong == std::vector<int>(3));
}

TEST_CASE("packing goes on where it was stopped, with the same bytes") {
  const Folder once, twice;
  const Packed whole = once.pack(Split::train);
  PackOptions options = twice.options(Packing::files, 9000);
  int64_t done = 0;
  options.at_once = 1;
  options.tick = [&](int64_t n) { done = n; };
  options.stop = [&] { return done == 7; };
  const auto source = twice.source(Split::train);
  const Packed part = pack(*source, Split::train, twice.out(), options);
  CHECK(!part.complete);
  CHECK(part.pictures == 7);
  REQUIRE(part.shards == 2);
  CHECK(Shard(twice.shard("train-00001.shard")).end() < 7);  // the third one was stopped within
  CHECK(!fs::exists(twice.shard("train-00002.shard")));
  CHECK_THROWS_WITH_AS(open_dataset(twice.out(), Split::train), doctest::Contains("is missing"),
                       pursuit::Error);
  options.stop = [] { return true; };  // stops while shards of before are checked, too
  CHECK(pack(*source, Split::train, twice.out(), options).shards == 0);
  // What is damaged is packed again.
  flip(twice.shard("train-00001.shard"), -5);
  const Packed rest = twice.pack(Split::train);
  CHECK(rest.complete);
  CHECK(rest.kept > 0);
  CHECK(rest.shards == whole.shards);
  for (const auto& entry : fs::directory_iterator(once.out())) {
    std::ifstream a(entry.path(), std::ios::binary),
        b(fs::path(twice.out()) / entry.path().filename(), std::ios::binary);
    const std::string bytes_a{std::istreambuf_iterator<char>(a), {}},
        bytes_b{std::istreambuf_iterator<char>(b), {}};
    CHECK(bytes_a == bytes_b);
  }
  CHECK(twice.pack(Split::train).kept == whole.shards);
  flip(twice.shard("train-00000.shard"), 90);  // in a picture
  CHECK(twice.pack(Split::train).kept == whole.shards - 1);
  CHECK_NOTHROW(open_dataset(twice.out(), Split::train)->get(0));
  PackOptions other = twice.options(Packing::files, 9000);
  other.source = "0012";
  CHECK_THROWS_WITH_AS(pack(*source, Split::train, twice.out(), other), doctest::Contains("of other data"),
                       pursuit::Error);
  CHECK_THROWS_WITH_AS(twice.pack(Split::train, Packing::raw), doctest::Contains("packed in another way"),
                       pursuit::Error);
}

TEST_CASE("shards that are cut off, damaged or of another version are refused by name") {
  const auto error_of = [](const auto& damage) {
    const Folder folder;
    folder.pack(Split::train);
    const std::string path = folder.shard("train-00001.shard");
    REQUIRE(fs::exists(path));
    damage(path);
    const std::string message = message_of([&] { open_dataset(folder.out(), Split::train); });
    CHECK(message.find("train-00001.shard") != std::string::npos);
    CHECK(message.find('\n') == std::string::npos);
    return message;
  };
  const auto contains = [](const std::string& message, const char* part) {
    CHECK_MESSAGE(message.find(part) != std::string::npos, message);
  };
  for (const int64_t left : {0, 20, 79, 100, 3000})
    contains(error_of([&](const std::string& path) { fs::resize_file(path, uintmax_t(left)); }), "cut off");
  contains(error_of([](const std::string& path) { fs::resize_file(path, fs::file_size(path) - 1); }),
           "cut off");
  contains(error_of([](const std::string& path) { flip(path, 0); }), "is no shard");
  contains(error_of([](const std::string& path) { flip(path, 8); }), "version 18, this program reads 2");
  for (const int64_t at : {12, 20, 40, 56, -1, -12, -30, -60})
    contains(error_of([&](const std::string& path) { flip(path, at); }), "damaged");
  contains(error_of([](const std::string& path) { fs::remove(path); }), "is missing");

  // A bit of a picture is found when it is read; skip_bad replaces it.
  const Folder folder;
  folder.pack(Split::train);
  flip(folder.shard("train-00000.shard"), 90);
  const auto set = open_dataset(folder.out(), Split::train);
  CHECK_THROWS_WITH_AS(set->get(0), doctest::Contains("train-00000.shard: train/ant/0.jpg is damaged"),
                       pursuit::Error);
  set->get(1);
  const auto skipping = open_dataset(folder.out(), Split::train, {.skip_bad = true});
  CHECK(skipping->get(0).index == -1);
  CHECK(skipping->get(0).image.pixels == set->get(1).image.pixels);
  CHECK(skipping->skipped() == 1);
}

TEST_CASE("labels of packed test data follow the classes of the model") {
  const Folder folder;
  folder.pack(Split::test);
  const auto set = open_dataset(folder.out(), Split::test, {.classes = {"cat", "dog", "bee", "ant"}});
  for (int64_t i = 0; i < set->size(); ++i)
    CHECK(set->label(i) == (set->name(i).find("/cat/") != std::string::npos ? 0 : 2));
  CHECK(set->present_classes() == std::vector<int64_t>{0, 2});
  CHECK_THROWS_WITH_AS(open_dataset(folder.out(), Split::test, {.classes = {"cat", "dog"}}),
                       doctest::Contains("class bee is none of the 2"), pursuit::Error);
}

TEST_CASE("data that lies in no files of its own is packed raw only") {
  const TemporaryFolder folder;
  const auto set = open_synthetic(Split::train, 16);
  const PackOptions files{.root = "", .source = "x"};
  CHECK_THROWS_WITH_AS(pack(*set, Split::train, folder.path.string(), files),
                       doctest::Contains("--packing raw"), pursuit::Error);
}

TEST_CASE("packed files have the fingerprint of their folder, packed pictures that of their pixels") {
  const Folder folder;
  const auto of = [](const std::string& path, Split split) {
    return fingerprint(*open_dataset(path, split), path);
  };
  std::vector<std::string> raw;
  for (const int shorter : {32, 31}) {
    PackOptions options = folder.options(Packing::raw, 9000);
    options.shorter = shorter;
    const std::string out = folder.out() + std::to_string(shorter);
    fs::create_directory(out);
    pack(*folder.source(Split::train), Split::train, out, options);
    raw.push_back(of(out, Split::train));
  }
  CHECK(raw[0] != raw[1]);
  for (const Split split : {Split::train, Split::test}) {
    folder.pack(split);
    CHECK(of(folder.out(), split) == of(folder.root(), split));
    CHECK(of(folder.out(), split) != raw[0]);
  }
}

TEST_CASE("packing replaces only shards that it would write, and only one process packs") {
  const Folder folder;
  folder.pack(Split::train);
  const auto refuses = [&](PackOptions options, const char* part) {
    const auto before = fs::file_size(folder.shard("train-00001.shard"));
    const std::string message =
        message_of([&] { pack(*folder.source(Split::train), Split::train, folder.out(), options); });
    CHECK_MESSAGE(message.find(part) != std::string::npos, message);
    CHECK(fs::file_size(folder.shard("train-00001.shard")) == before);
  };
  const PackOptions same = folder.options(Packing::files, 9000);
  PackOptions other = same;
  // Whether a shard is of other data is seen though the one before it is cut off.
  fs::resize_file(folder.shard("train-00000.shard"), 20);
  other.source = "0012";
  refuses(other, "train-00001.shard is of other data");
  refuses(folder.options(Packing::files, 9001), "was packed with shards of 9000 bytes, not 9001");
  {
    const LockedFile lock = lock_shards(folder.out());
    CHECK_THROWS_WITH_AS(lock_shards(folder.out()), doctest::Contains("another process packs into"),
                         pursuit::Error);
    // What is locked is open for writing, which NFS demands.
    CHECK((fcntl(lock.descriptor(), F_GETFL) & O_ACCMODE) == O_RDWR);
  }
  for (const int64_t at : {12, 20, 40, 56}) {  // in the head: not of other data, but damaged
    folder.pack(Split::train);
    flip(folder.shard("train-00001.shard"), at);
    const Packed again = folder.pack(Split::train);
    CHECK(again.kept == again.shards - 1);
  }
  flip(folder.shard("train-00001.shard"), 8);
  refuses(same, "train-00001.shard has version 18");
  flip(folder.shard("train-00001.shard"), 8);
  flip(folder.shard("train-00001.shard"), 0);
  refuses(same, "train-00001.shard is no shard");
  flip(folder.shard("train-00001.shard"), 0);
  CHECK(folder.pack(Split::train).kept > 0);

  // A shard that got the name of another split.
  folder.pack(Split::test);
  for (const auto& entry : fs::directory_iterator(folder.out()))
    if (std::string name = entry.path().filename().string(); name.starts_with("test-"))
      fs::rename(entry.path(), entry.path().parent_path() / name.replace(0, 4, "train"));
  CHECK_THROWS_WITH_AS(open_dataset(folder.out(), Split::train), doctest::Contains("of the other split"),
                       pursuit::Error);
}

TEST_CASE("an index that contradicts itself is refused, whatever its checksum") {
  const TemporaryFolder folder;
  const auto open = [&](const ShardSet& set, int64_t label) {
    ShardHead head;
    head.total = 1;
    ShardWriter writer((folder.path / "train-00000.shard").string(), head);
    writer.add(encode_png(Image(5, 4, 3)), label, "a/1.png", 0, 0);
    writer.finish(1, set);
    return open_shards(folder.path.string(), Split::train, {});
  };
  CHECK(open({{"a", "b"}, {0, 1}, ""}, 1)->label(0) == 1);
  const auto refuses = [&](const ShardSet& set, int64_t label) {
    CHECK_THROWS_WITH_AS(open(set, label), doctest::Contains("index does not fit"), pursuit::Error);
  };
  refuses({{"a", "b"}, {0}, ""}, 1);     // a label that does not occur
  refuses({{"a", "a"}, {0, 1}, ""}, 1);  // a class twice
  refuses({{"a", "\xFF"}, {0, 1}, ""}, 1);
  refuses({{"a", "b"}, {1, 0}, ""}, 1);
  refuses({{"a", "b"}, {0, 0}, ""}, 0);
  refuses({{"a", "b"}, {0, 2}, ""}, 0);
}

TEST_CASE("pictures that libjpeg-turbo does not decode are prepared and cached" *
          NEEDS("turbo", !has_turbo())) {
  const Folder folder;
  write(folder.files.path / "train/ant/0.jpg", encode_png(drawn(40, 60, 0)));
  folder.pack(Split::train);
  for (const std::string& path : {folder.root(), folder.out()}) {
    int prepared = 0;
    DatasetOptions options{.decoding = {Decoder::turbo}, .cache_bytes = 1 << 20};
    options.prepare = [&](Image image) {
      ++prepared;
      return image;
    };
    const auto set = open_dataset(path, Split::train, options);
    const auto all = [](int width, int height) { return Part{{0, 0, width, height}}; };
    for (int time = 0; time < 2; ++time)
      for (int64_t i = 0; i < 5; ++i) set->get_part(i, all);
    CHECK(prepared == 3);  // the PNGs, once, whatever their names
  }
}
