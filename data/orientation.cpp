#include "data/orientation.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "engine/base/error.h"

namespace pursuit::data {
namespace {

constexpr int kUpright = 1;

using Bytes = std::span<const uint8_t>;

// The number stored in `count` bytes at `at`, or nothing if it extends beyond the end.
std::optional<uint32_t> number(Bytes bytes, uint64_t at, int count, bool little_endian = false) {
  if (at + uint64_t(count) > bytes.size()) return {};
  uint32_t value = 0;
  for (int i = 0; i < count; ++i)
    value |= uint32_t(bytes[at + uint64_t(i)]) << 8 * (little_endian ? i : count - 1 - i);
  return value;
}

bool has(Bytes bytes, uint64_t at, std::string_view text) {
  return at <= bytes.size() && text.size() <= bytes.size() - at &&
         std::equal(text.begin(), text.end(), bytes.begin() + long(at),
                    [](char c, uint8_t b) { return uint8_t(c) == b; });
}

// EXIF data is a TIFF file without pixels: byte order, 42, the offset of the first directory. A directory is
// a count and entries of 12 bytes: tag, type, number of values, value.
int orientation_of_tiff(Bytes tiff) {
  constexpr uint32_t tag_orientation = 0x112, type_short = 3, type_long = 4;
  const bool little = has(tiff, 0, "II");
  if (!little && !has(tiff, 0, "MM")) return kUpright;
  const auto directory = number(tiff, 4, 4, little);
  if (number(tiff, 2, 2, little) != 42u || !directory) return kUpright;
  const uint32_t entries = number(tiff, *directory, 2, little).value_or(0);
  for (uint32_t i = 0; i < entries; ++i) {
    const uint64_t entry = uint64_t(*directory) + 2 + 12 * uint64_t(i);
    const auto tag = number(tiff, entry, 2, little);
    if (!tag) return kUpright;
    if (*tag != tag_orientation) continue;
    const auto type = number(tiff, entry + 2, 2, little);
    if (type != type_short && type != type_long) return kUpright;
    const uint32_t value = number(tiff, entry + 8, type == type_short ? 2 : 4, little).value_or(kUpright);
    return value >= 1 && value <= 8 ? int(value) : kUpright;
  }
  return kUpright;
}

// Segments: 0xff, the marker, and, except after the start marker, a length that includes itself.
int orientation_of_jpeg(Bytes file) {
  constexpr uint32_t app1 = 0xe1, start_of_scan = 0xda, end_of_image = 0xd9, fill = 0xff;
  constexpr std::string_view exif("Exif\0\0", 6);
  for (uint64_t at = 2;;) {
    const auto marker = number(file, at + 1, 1);
    if (number(file, at, 1) != fill || !marker || marker == start_of_scan || marker == end_of_image)
      return kUpright;
    if (marker == fill) {
      ++at;
      continue;
    }
    const auto length = number(file, at + 2, 2);
    if (!length || *length < 2 || *length > file.size() - at - 2) return kUpright;
    if (marker == app1 && has(file.first(at + 2 + *length), at + 4, exif))
      return orientation_of_tiff(file.subspan(at + 4 + exif.size(), *length - 2 - exif.size()));
    at += 2 + *length;
  }
}

// Chunks: length of the data, type, data, checksum.
int orientation_of_png(Bytes file) {
  for (uint64_t at = 8;;) {
    const auto length = number(file, at, 4);
    if (!length || *length > file.size() - at - 4) return kUpright;
    if (has(file, at + 4, "eXIf") && *length <= file.size() - at - 8)
      return orientation_of_tiff(file.subspan(at + 8, *length));
    at += 12 + uint64_t(*length);
  }
}

}  // namespace

int orientation(std::span<const uint8_t> file) {
  if (has(file, 0, "\xff\xd8")) return orientation_of_jpeg(file);
  if (has(file, 0, "\x89PNG\r\n\x1a\n")) return orientation_of_png(file);
  return kUpright;
}

Image upright(const Image& image, int orientation) {
  if (orientation < 1 || orientation > 8)
    fail("upright", "orientation: got " + std::to_string(orientation) + ", need 1 to 8");
  const bool swap = orientation > 4;
  const bool mirror_x = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool mirror_y = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  Image out(swap ? image.height : image.width, swap ? image.width : image.height, image.channels);
  for (int y = 0; y < out.height; ++y)
    for (int x = 0; x < out.width; ++x) {
      const int u = swap ? y : x, v = swap ? x : y;
      std::copy_n(image.at(mirror_x ? image.width - 1 - u : u, mirror_y ? image.height - 1 - v : v),
                  image.channels, out.at(x, y));
    }
  return out;
}

Image read_upright(const std::string& path, const Decoding& decoding) {
  const std::vector<uint8_t> bytes = read_bytes(path);
  return upright(decode_image(bytes.data(), bytes.size(), path, decoding), orientation(bytes));
}

}  // namespace pursuit::data
