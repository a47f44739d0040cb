#include "data/interactive/objects.h"

#include <algorithm>
#include <filesystem>

#include "data/image.h"
#include "engine/base/error.h"
#include "tests/fuzz/fuzz.h"

namespace pursuit::fuzz {

namespace {

// A map written as its width and its values, since a mutated PNG would be refused for its checksums.
std::string png_of(const std::string& bytes) {
  if (bytes.size() < 2) return "";
  const int width = std::max(1, int(uint8_t(bytes[0])) & 15);
  data::Image image(width, std::max(1, int(bytes.size() - 1) / width), 1);
  std::copy_n(bytes.begin() + 1, std::min(bytes.size() - 1, image.pixels.size()), image.pixels.begin());
  const std::vector<uint8_t> png = data::encode_png(image);
  return {png.begin(), png.end()};
}

void read_all(const std::string& folder, const char* format) try {
  const auto set = data::open_objects(folder, data::Split::val, {.format = format, .least_area = 1});
  for (int64_t i = 0; i < std::min<int64_t>(set->size(), 3); ++i) set->get(i);
} catch (const Error&) {
}

// Pictures with masks in one folder, a_in.png with a_gt.bmp; and val_img, val_label and val_inst, maps that
// become the only file of a folder of that name.
void read(std::string_view input) {
  read_all(write_folder("masks", input), "masks");
  std::filesystem::remove_all(path_of("coco"));
  for (const File& file : files_of(input))
    if (file.name == "val_img" || file.name == "val_label" || file.name == "val_inst")
      write("coco/" + file.name + "/a.png", png_of(file.bytes));
  read_all(path_of("coco"), "coco_stuff");
}

std::vector<std::string> seeds() {
  using namespace std::string_literals;
  // 2 x 1 pixels of 8 and of 24 bits.
  const std::string header = "BM\0\0\0\0\0\0\0\0"s, size = "\x28\0\0\0\x02\0\0\0\x01\0\0\0\x01\0"s;
  const std::string indexed = header + "\x3e\0\0\0"s + size + "\x08\0"s + std::string(16, '\0') +
                              "\x02\0\0\0\0\0\0\0"s + "\0\0\0\0\xff\xff\xff\0"s + "\x01\0\0\0"s,
                    rgb = header + "\x36\0\0\0"s + size + "\x18\0"s + std::string(24, '\0') +
                          "\x01\x02\x03\x04\x05\x06\0\0"s;
  const std::string map = png_of("\x02\0\x80"s);
  return {input_of({{"a_in.bmp", rgb}, {"a_gt.bmp", indexed}}),
          input_of({{"a_in.bmp", rgb}, {"a_gt.png", map}}),
          input_of({{"a_in.png", map}, {"a_gt.png", map}, {"b_in.bmp", indexed}, {"b_gt.bmp", rgb}}),
          input_of({{"val_img", "\x03\1\2\3\4\5\6"s},
                    {"val_label", "\x03\0\0\x5a\x5a\xb5\xff"s},
                    {"val_inst", "\x03\0\1\1\1\xb5\xff"s}})};
}

}  // namespace

const Target target{.read = read, .split = split_files, .join = join_files, .seeds = seeds};

}  // namespace pursuit::fuzz
