#include "data/interactive/bmp.h"

#include <cstdlib>

#include "engine/base/error.h"

namespace pursuit::data {
namespace {

constexpr size_t kFileHeader = 14, kInfoHeader = 40;  // bytes; later versions of the second one are longer

uint32_t little_endian(const uint8_t* p, int bytes) {
  uint32_t value = 0;
  for (int i = 0; i < bytes; ++i) value |= uint32_t(p[i]) << (8 * i);
  return value;
}

}  // namespace

bool is_bmp(const std::vector<uint8_t>& bytes) {
  return bytes.size() >= 2 && bytes[0] == 'B' && bytes[1] == 'M';
}

Image decode_bmp(const std::vector<uint8_t>& bytes, const std::string& name) {
  constexpr const char* where = "decode_bmp";
  if (!is_bmp(bytes)) fail(where, name + ": not a BMP file");
  if (bytes.size() < kFileHeader + kInfoHeader) fail(where, name + ": truncated BMP: the header is cut off");
  const uint8_t* const header = bytes.data() + kFileHeader;
  const size_t pixels = little_endian(bytes.data() + 10, 4), header_size = little_endian(header, 4);
  const auto width = int32_t(little_endian(header + 4, 4)), rows = int32_t(little_endian(header + 8, 4));
  const size_t bits = little_endian(header + 14, 2), compression = little_endian(header + 16, 4);
  const size_t colours = little_endian(header + 32, 4);
  const bool indexed = bits == 1 || bits == 4 || bits == 8;
  if (header_size < kInfoHeader || compression != 0 || !(indexed || bits == 24 || bits == 32))
    fail(where, name + ": a BMP of " + std::to_string(bits) + " bits a pixel, compression " +
                    std::to_string(compression) + " and a header of " + std::to_string(header_size) +
                    " bytes, which is not read: convert it to PNG");
  const int64_t height = std::abs(int64_t(rows));  // positive: the lowest row comes first
  check_pixels(name, width, height);
  const size_t row_size = (size_t(width) * bits + 31) / 32 * 4;
  if (pixels > bytes.size() || row_size * size_t(height) > bytes.size() - pixels)
    fail(where, name + ": truncated BMP: " + std::to_string(width) + " x " + std::to_string(height) +
                    " pixels do not fit into its " + std::to_string(bytes.size()) + " bytes");
  const size_t entries = !indexed ? 0 : colours == 0 ? size_t(1) << bits : colours;
  const size_t palette = kFileHeader + header_size;  // blue, green, red, unused
  if (indexed && (entries > 256 || palette + 4 * entries > bytes.size()))
    fail(where, name + ": damaged BMP: its palette of " + std::to_string(entries) + " colours does not fit");

  Image image(width, int(height), 3);
  for (int y = 0; y < image.height; ++y) {
    const uint8_t* const row = bytes.data() + pixels + row_size * size_t(rows > 0 ? image.height - 1 - y : y);
    for (size_t x = 0; x < size_t(width); ++x) {
      const uint8_t* bgr = row + x * bits / 8;
      if (indexed) {
        const size_t index = size_t(*bgr) >> (8 - bits - x * bits % 8) & ((size_t(1) << bits) - 1);
        if (index >= entries)
          fail(where, name + ": damaged BMP: the pixel at x " + std::to_string(x) + ", y " +
                          std::to_string(y) + " has the colour " + std::to_string(index) + " of " +
                          std::to_string(entries));
        bgr = bytes.data() + palette + 4 * index;
      }
      uint8_t* const rgb = image.at(int(x), y);
      rgb[0] = bgr[2], rgb[1] = bgr[1], rgb[2] = bgr[0];
    }
  }
  return image;
}

}  // namespace pursuit::data
