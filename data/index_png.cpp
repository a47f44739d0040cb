#include "data/index_png.h"

#include <zlib.h>

#include <cstring>

#include "data/big_endian.h"
#include "engine/base/error.h"

namespace pursuit::data {
namespace {

// Signature, then the header chunk: length, "IHDR", width, height, bit depth, colour type ...
constexpr size_t kChunks = 8, kBitDepth = 24, kColourType = 25, kHeaderEnd = 33;

void append32(std::vector<uint8_t>& to, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) to.push_back(uint8_t(value >> shift));
}

// A palette that maps every number to the grey of that value.
std::vector<uint8_t> identity_palette() {
  std::vector<uint8_t> chunk;
  append32(chunk, 768);
  for (const char c : {'P', 'L', 'T', 'E'}) chunk.push_back(uint8_t(c));
  for (int v = 0; v < 256; ++v) chunk.insert(chunk.end(), 3, uint8_t(v));
  append32(chunk, uint32_t(crc32(0, chunk.data() + 4, uInt(chunk.size() - 4))));
  return chunk;
}

// The file with that palette in place of its own. What is damaged is copied as it is, for the decoder to
// name.
std::vector<uint8_t> with_identity_palette(const std::vector<uint8_t>& bytes) {
  std::vector<uint8_t> out(bytes.begin(), bytes.begin() + kChunks);
  bool replaced = false;
  for (size_t i = kChunks; i < bytes.size();) {
    const size_t left = bytes.size() - i, length = left < 12 ? left : size_t(big_endian32(&bytes[i])) + 12;
    const auto from = bytes.begin() + long(i);
    if (!replaced && length <= left && left >= 12 && std::memcmp(&bytes[i + 4], "PLTE", 4) == 0) {
      replaced = true;
      const std::vector<uint8_t> palette = identity_palette();
      out.insert(out.end(), palette.begin(), palette.end());
    } else {
      out.insert(out.end(), from, from + long(std::min(length, left)));
    }
    i += std::min(length, left);
  }
  return out;
}

}  // namespace

PngKind png_kind(const std::vector<uint8_t>& bytes, const std::string& name) {
  constexpr uint8_t start[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n', 0, 0, 0, 13, 'I', 'H', 'D', 'R'};
  if (bytes.size() < kHeaderEnd || std::memcmp(bytes.data(), start, sizeof start) != 0)
    fail("index_png", name + ": not a PNG file; label maps are PNGs, for JPEG blurs numbers and colours");
  const int type = bytes[kColourType];
  return type == 3 ? PngKind::palette : type & 2 ? PngKind::rgb : PngKind::grey;
}

Image decode_index_png(const std::vector<uint8_t>& bytes, const std::string& name) {
  const PngKind kind = png_kind(bytes, name);
  const int bits = bytes[kBitDepth];
  if (kind == PngKind::rgb || bits > 8)
    fail("index_png", name + ": got " + (kind == PngKind::rgb ? "RGB colours" : "16 bits a pixel") +
                          ", need numbers: a grey PNG of 8 bits or one with a palette");
  const Image decoded = [&] {
    if (kind == PngKind::grey) return decode_image(bytes.data(), bytes.size(), name);
    const std::vector<uint8_t> numbers = with_identity_palette(bytes);
    return decode_image(numbers.data(), numbers.size(), name);
  }();
  // The decoder stretches grey of fewer bits to 0..255.
  const int step = kind == PngKind::grey ? 255 / ((1 << bits) - 1) : 1;
  Image out(decoded.width, decoded.height, 1);
  for (size_t i = 0; i < out.pixels.size(); ++i) out.pixels[i] = uint8_t(decoded.pixels[3 * i] / step);
  return out;
}

}  // namespace pursuit::data
