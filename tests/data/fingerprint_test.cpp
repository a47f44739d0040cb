#include "data/fingerprint.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "data/class_names.h"
#include "data/image.h"
#include "engine/base/error.h"
#include "tests/temporary_folder.h"

using namespace pursuit;
using namespace pursuit::data;
namespace fs = std::filesystem;

namespace {

void draw(const fs::path& file, int side = 4) {
  fs::create_directories(file.parent_path());
  write_png(file.string(), Image(side, side, 3));
}

// cat: 2 pictures, dog: 1, each in train and val.
std::string animals(const TemporaryFolder& at, const std::string& name) {
  for (const char* split : {"train", "val"})
    for (const char* file : {"cat/1.png", "cat/2#.png", "dog/1.png"}) draw(at.path / name / split / file);
  return at.file(name);
}

DatasetOptions limited_to(int64_t limit) {
  DatasetOptions o;
  o.limit = limit;
  return o;
}
DatasetOptions of_classes(const std::vector<std::string>& classes) {
  DatasetOptions o;
  o.classes = classes;
  return o;
}

std::string of(const std::string& path, const DatasetOptions& options = {}) {
  return fingerprint(*open_dataset(path, Split::test, options), path);
}

}  // namespace

TEST_CASE("fingerprint: of names, sizes, classes and order, wherever the folder is") {
  const TemporaryFolder at;
  const std::string one = animals(at, "one"), first = of(one);
  CHECK(first.size() == 16);
  CHECK(of(one) == first);
  CHECK(of(one + "/") == first);
  CHECK(of(animals(at, "two")) == first);
  CHECK(fingerprint(*open_dataset(one, Split::train), one) != first);
  CHECK(of(one, limited_to(2)) != first);
  CHECK(of(one, of_classes({"dog", "cat"})) != first);
  CHECK(of(one, of_classes({"cat", "dog", "horse"})) != first);

  const auto changed = [&](const std::string& name, const auto& change) {
    const std::string path = animals(at, name);
    change(fs::path(path) / "val");
    return of(path);
  };
  CHECK(changed("renamed", [](const fs::path& val) { fs::rename(val / "dog/1.png", val / "dog/3.png"); }) !=
        first);
  CHECK(changed("moved", [](const fs::path& val) { fs::rename(val / "cat/2#.png", val / "dog/2#.png"); }) !=
        first);
  CHECK(changed("more", [](const fs::path& val) { draw(val / "dog/2.png"); }) != first);
  CHECK(changed("larger", [](const fs::path& val) { draw(val / "dog/1.png", 50); }) != first);
}

TEST_CASE("fingerprint: of files that hold many samples, and of drawn ones") {
  const TemporaryFolder at;
  const auto save = [&](const std::string& name, int labels, int more) {
    fs::create_directories(at.path / name);
    std::ofstream out(at.path / name / "test_batch.bin", std::ios::binary);
    for (int i = 0; i < 4; ++i) out << std::string(1, char(i < labels ? 1 : 2)) << std::string(3072, 'x');
    for (int i = 0; i < more; ++i) out << std::string(3073, char(1));
    return at.file(name);
  };
  const std::string first = of(save("a", 2, 0));
  CHECK(of(save("b", 2, 0)) == first);
  CHECK(of(save("deeper/in/there", 2, 0)) == first);
  CHECK(of(save("c", 3, 0)) != first);
  CHECK(of(save("d", 2, 1)) != first);
  DatasetOptions first_four;
  first_four.first = 4;
  // The same pictures of a longer file are not taken for those of a shorter one.
  CHECK(of(save("e", 2, 1), first_four) != first);

  CHECK(of("") == of(""));
  CHECK(of("") != fingerprint(*open_dataset("", Split::train), ""));
  const auto scenes = [](Split split) { return fingerprint(*open_segmentation("", split), ""); };
  CHECK(scenes(Split::val) == scenes(Split::val));
  CHECK(scenes(Split::val) != scenes(Split::test));
  const TextSource grammar = open_text("");
  CHECK(fingerprint(grammar.train, "") != fingerprint(grammar.valid, ""));
}

TEST_CASE("fingerprint: of label maps too") {
  const TemporaryFolder at;
  const auto of_labels = [&](const std::string& name, const std::string& map, int side) {
    draw(at.path / name / "images/1.png", 4);
    fs::create_directories(at.path / name / "labels");
    write_png((at.path / name / "labels" / map).string(), Image(side, side, 1));
    std::ofstream(at.path / name / "classes.txt") << "sky\n";
    SegmentationOptions options;
    const std::string path = at.file(name);
    return fingerprint(*open_segmentation(path, Split::train, options), path);
  };
  const std::string first = of_labels("one", "1.png", 4);
  CHECK(of_labels("two", "1.png", 4) == first);
  CHECK(of_labels("larger", "1.png", 50) != first);
  CHECK(of_labels("renamed", "1.PNG", 4) != first);
}

TEST_CASE(
    "image folder: a folder of some of the model's classes says which; strangers are named and counted") {
  const TemporaryFolder at;
  draw(at.path / "some/dog/1.png");
  draw(at.path / "some/bird/1.png");
  const DatasetOptions known = of_classes({"bird", "cat", "dog"});
  CHECK(open_dataset(at.file("some"), Split::test, known)->present_classes() == std::vector<int64_t>{0, 2});
  // Not only the classes that remain with a limit.
  DatasetOptions limited = known;
  limited.limit = 1;
  CHECK(open_dataset(at.file("some"), Split::test, limited)->present_classes() == std::vector<int64_t>{0, 2});
  CHECK(open_dataset("", Split::test, limited_to(3))->present_classes().size() == 10);
  CHECK(open_dataset(at.file("some"), Split::test, known)->test_split() == "");
  CHECK(open_dataset("", Split::test)->test_split() == "test");
  const std::string path = animals(at, "parts");
  CHECK(open_dataset(path, Split::test)->test_split() == "val");

  draw(at.path / "some/unicorn/1.png");
  draw(at.path / "some/griffin/1.png");
  try {
    open_dataset(at.file("some"), Split::test, known);
    CHECK(false);
  } catch (const Error& e) {
    const std::string said = e.what();
    CHECK(said.find("2 of its 4 class folders are none of the 3 classes") != std::string::npos);
    CHECK(said.find("griffin, unicorn") != std::string::npos);
  }
}

TEST_CASE("class names: words for WordNet's numbers, where the data has a list") {
  const TemporaryFolder at;
  const std::vector<std::string> classes = {"n01440764", "n09999999", "n02102040"};
  CHECK(class_names(at.path.string(), classes).empty());
  CHECK(class_names("", classes).empty());
  std::ofstream(at.path / "LOC_synset_mapping.txt")
      << "n01440764 tench, Tinca tinca\nn02102040\tEnglish springer, English springer spaniel\nbroken\n";
  CHECK(class_names(at.path.string(), classes) ==
        std::vector<std::string>{"tench", "n09999999", "English springer"});
}

TEST_CASE("lists: what is too long for one, or not UTF-8, is refused in a short line") {
  const TemporaryFolder at;
  const std::string path = at.file("classes.txt");
  const auto said = [&] {
    try {
      read_lines(path);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  std::ofstream(path) << "cat\n" << std::string(100000, '\xe9') << "\n";
  CHECK(said().find("classes.txt: '\\xe9") != std::string::npos);
  CHECK(said().size() < 2000);
  std::ofstream(path) << "cat\ndog\n";
  CHECK(read_lines(path) == std::vector<std::string>{"cat", "dog"});
  std::ofstream(path) << "\xef\xbb\xbf"
                      << "cat\r\ndog\r\n";
  CHECK(read_lines(path) == std::vector<std::string>{"cat", "dog"});
  std::filesystem::resize_file(path, max_list_bytes);  // a hole of zeros
  CHECK(said() == "");
  std::filesystem::resize_file(path, uint64_t(3) << 30);
  CHECK(said().find("classes.txt holds 3221225472 bytes, a list at most 67108864") != std::string::npos);
}
