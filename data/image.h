#pragma once
#include <cstdint>
#include <string>
#include <vector>

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

// Reads a JPEG or PNG as RGB (grey is converted, an alpha channel is dropped).
// Throws pursuit::Error that names the file if it is missing, damaged, truncated or over 64
// megapixels.
Image read_image(const std::string& path);

// The same from bytes in memory; `name` is used in errors.
Image decode_image(const uint8_t* bytes, size_t size, const std::string& name);

// Throws Error that names the file unless the image has 1 to 64 megapixels.
void check_pixels(const std::string& name, int64_t width, int64_t height);

// Reads a whole file. Throws pursuit::Error that names it if it cannot be read or exceeds 2 GiB.
std::vector<uint8_t> read_bytes(const std::string& path);

// Writes a PNG atomically. Throws pursuit::Error that names the file if it cannot be written.
void write_png(const std::string& path, const Image& image);

// Encode a PNG or JPEG (quality 1 to 100) in memory.
std::vector<uint8_t> encode_png(const Image& image);
std::vector<uint8_t> encode_jpeg(const Image& image, int quality);

Image to_rgb(const Image& image);
Image to_grey(const Image& image);  // ITU-R 601 luma, rounded as Pillow does: (19595 R + 38470 G + 7471 B +
                                    // 0x8000) >> 16

}  // namespace pursuit::data
