#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/base/choice.h"

namespace pursuit::data {

// An 8-bit image: channels is 1 (grey) or 3 (RGB), top row first, interleaved: [height, width,
// channels].
struct Image {
  int width = 0, height = 0, channels = 3;
  std::vector<uint8_t> pixels;

  Image() = default;
  Image(int w, int h, int c) : width(w), height(h), channels(c), pixels(size_t(w) * size_t(h) * size_t(c)) {}
  uint8_t* at(int x, int y) { return &pixels[(size_t(y) * size_t(width) + size_t(x)) * size_t(channels)]; }
  const uint8_t* at(int x, int y) const {
    return &pixels[(size_t(y) * size_t(width) + size_t(x)) * size_t(channels)];
  }
};

// A rectangle in an image.
struct Box {
  int x = 0, y = 0, width = 0, height = 0;
};

enum class Decoder { stb, turbo };
inline std::vector<Choice<Decoder>> choices_of(Decoder) {
  return {{"stb", Decoder::stb, "stb_image, which every build has"},
          {"turbo", Decoder::turbo, "libjpeg-turbo, of parts only their rows and columns"}};
}

// How JPEGs are decoded. The decoders take the same kinds of files. At full size they differ by a few levels, in
// one column of a 4:2:2 picture by many (README.md).
struct Decoding {
  Decoder decoder = Decoder::stb;
  bool scaled = false;  // turbo: a part at 1/2, 1/4 or 1/8 where it still has the pixels that are needed
};

// Reads a JPEG or PNG as RGB (grey is converted, an alpha channel is dropped).
// Throws pursuit::Error that names the file if it is missing, damaged, truncated, of a rare kind that not every
// decoder reads (README.md) or over 64 megapixels.
Image read_image(const std::string& path, const Decoding& decoding = {});

// The same from bytes in memory; `name` is used in errors.
Image decode_image(const uint8_t* bytes, size_t size, const std::string& name, const Decoding& decoding = {});

// A part of a picture that is to be resized to width x height (0: not resized).
struct Part {
  Box box;
  int width = 0, height = 0;
};
using ChoosePart = std::function<Part(int width, int height)>;  // of a picture of that size

// The part that `choose` names: the pixels of decode_image, or, scaled, fewer of them. Damage outside the part
// may go unnoticed.
Image decode_part(const uint8_t* bytes, size_t size, const std::string& name, const Decoding& decoding,
                  const ChoosePart& choose);

// Throws Error unless the box lies within width x height and is not empty.
void check_part(const char* where, const Box& box, int width, int height);

// Throws Error that names the file unless the image has 1 to 64 megapixels.
void check_pixels(const std::string& name, int64_t width, int64_t height);

// Reads a whole file. Throws pursuit::Error that names it if it cannot be read or exceeds 2 GiB.
std::vector<uint8_t> read_bytes(const std::string& path);

// Writes a PNG atomically. Throws pursuit::Error that names the file if it cannot be written.
void write_png(const std::string& path, const Image& image);

// Encode a PNG or JPEG (quality 1 to 100) in memory.
std::vector<uint8_t> encode_png(const Image& image);
std::vector<uint8_t> encode_jpeg(const Image& image, int quality);

Image to_rgb(Image image);
Image to_grey(Image image);  // ITU-R 601 luma, rounded as Pillow does: (19595 R + 38470 G + 7471 B +
                             // 0x8000) >> 16

}  // namespace pursuit::data
