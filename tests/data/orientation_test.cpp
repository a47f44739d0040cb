#include "data/orientation.h"

#include <doctest/doctest.h>
#include <zlib.h>

#include <fstream>

#include "engine/base/error.h"
#include "tests/temporary_folder.h"

using namespace pursuit::data;

namespace {

using Bytes = std::vector<uint8_t>;

void append(Bytes& to, uint64_t value, int count, bool little_endian) {
  for (int i = 0; i < count; ++i) to.push_back(uint8_t(value >> 8 * (little_endian ? i : count - 1 - i)));
}

// EXIF data with another entry before the orientation.
Bytes exif(int orientation, bool little_endian, int type = 3) {
  Bytes out;
  out.insert(out.end(), 2, little_endian ? 'I' : 'M');
  append(out, 42, 2, little_endian);
  append(out, 8, 4, little_endian);
  append(out, 2, 2, little_endian);
  for (const auto& [tag, value] : {std::pair{0x10f, 0}, {0x112, orientation}}) {
    append(out, uint64_t(tag), 2, little_endian);
    append(out, uint64_t(type), 2, little_endian);
    append(out, 1, 4, little_endian);
    append(out, uint64_t(value), type == 3 ? 2 : 4, little_endian);
    if (type == 3) append(out, 0, 2, little_endian);
  }
  append(out, 0, 4, little_endian);
  return out;
}

Image picture() {
  Image image(3, 2, 1);
  image.pixels = {0, 40, 80, 120, 160, 200};
  return image;
}

Bytes jpeg(const Bytes& tiff) {
  Bytes out = encode_jpeg(to_rgb(picture()), 95), segment{0xff, 0xe1};
  append(segment, tiff.size() + 8, 2, false);
  for (const char c : {'E', 'x', 'i', 'f', '\0', '\0'}) segment.push_back(uint8_t(c));
  segment.insert(segment.end(), tiff.begin(), tiff.end());
  out.insert(out.begin() + 2, segment.begin(), segment.end());
  return out;
}

Bytes png(const Bytes& tiff) {
  Bytes out = encode_png(picture()), chunk;
  append(chunk, tiff.size(), 4, false);
  for (const char c : {'e', 'X', 'I', 'f'}) chunk.push_back(uint8_t(c));
  chunk.insert(chunk.end(), tiff.begin(), tiff.end());
  append(chunk, crc32(0, chunk.data() + 4, uInt(chunk.size() - 4)), 4, false);
  out.insert(out.begin() + 33, chunk.begin(), chunk.end());
  return out;
}

}  // namespace

TEST_CASE("orientation: of JPEGs and PNGs, in both byte orders and types") {
  for (int o = 1; o <= 8; ++o)
    for (const bool little_endian : {false, true})
      for (const int type : {3, 4}) {
        const Bytes tiff = exif(o, little_endian, type);
        CHECK(orientation(jpeg(tiff)) == o);
        CHECK(orientation(png(tiff)) == o);
      }
  CHECK(orientation(encode_jpeg(picture(), 90)) == 1);
  CHECK(orientation(encode_png(picture())) == 1);
}

TEST_CASE("orientation: what is damaged or makes no sense is upright") {
  CHECK(orientation({}) == 1);
  for (const int o : {0, 9, 600}) CHECK(orientation(jpeg(exif(o, true))) == 1);
  for (const auto& whole : {jpeg(exif(6, true)), png(exif(6, false))}) {
    for (size_t size = 0; size < whole.size(); ++size) {
      const Bytes cut(whole.begin(), whole.begin() + long(size));  // of its own size, for the sanitizer
      const int o = orientation(cut);
      CHECK((o == 1 || o == 6));
    }
    for (size_t i = 0; i < whole.size(); ++i)
      for (const int value : {0, 1, 0x7f, 0xff}) {
        Bytes changed = whole;
        changed[i] = uint8_t(value);
        const int o = orientation(changed);
        CHECK((o >= 1 && o <= 8));
      }
  }
}

TEST_CASE("upright: the eight ways to hold a camera") {
  //  0  40  80
  // 120 160 200
  const std::vector<std::vector<uint8_t>> want = {{0, 40, 80, 120, 160, 200}, {80, 40, 0, 200, 160, 120},
                                                  {200, 160, 120, 80, 40, 0}, {120, 160, 200, 0, 40, 80},
                                                  {0, 120, 40, 160, 80, 200}, {120, 0, 160, 40, 200, 80},
                                                  {200, 80, 160, 40, 120, 0}, {80, 200, 40, 160, 0, 120}};
  for (int o = 1; o <= 8; ++o) {
    const Image out = upright(picture(), o);
    CHECK(out.width == (o > 4 ? 2 : 3));
    CHECK(out.height == (o > 4 ? 3 : 2));
    CHECK(out.pixels == want[size_t(o - 1)]);
    CHECK(upright(to_rgb(picture()), o).pixels == to_rgb(out).pixels);
  }
  CHECK_THROWS_AS(upright(picture(), 0), pursuit::Error);
  const TemporaryFolder folder;
  const std::string path = folder.file("turned.png");
  const Bytes bytes = png(exif(6, true));
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), long(bytes.size()));
  CHECK(read_upright(path).pixels == to_rgb(upright(picture(), 6)).pixels);
  CHECK(read_image(path).pixels == to_rgb(picture()).pixels);
}
