#include "data/png.h"

#include <spng.h>

#include <algorithm>
#include <memory>

#include "engine/base/error.h"

namespace pursuit::data {

namespace {

constexpr size_t most_text = size_t(1) << 20;  // of skipped chunks; colour profiles are smaller

// Decodes one PNG file.
class PngReader {
 public:
  PngReader(const uint8_t* bytes, size_t size, const std::string& name) : name_(name), png_(spng_ctx_new(0)) {
    if (!png_) fail("decode_png", name + ": out of memory");
    spng_set_chunk_limits(png_.get(), most_text, most_text);
    spng_set_crc_action(png_.get(), SPNG_CRC_ERROR, SPNG_CRC_ERROR);
    // libspng does not verify IEND's checksum.
    constexpr uint8_t end[] = {0, 0, 0, 0, 'I', 'E', 'N', 'D', 0xae, 0x42, 0x60, 0x82};
    if (std::search(bytes, bytes + size, std::begin(end), std::end(end)) == bytes + size)
      fail("decode_png", name + ": truncated PNG: the end chunk is missing");
    require(spng_set_png_buffer(png_.get(), bytes, size));
    spng_set_image_limits(png_.get(), 1u << 30, 1u << 30);
    require(spng_get_ihdr(png_.get(), &header_));
    check_pixels(name, header_.width, header_.height);
  }
  const spng_ihdr& header() const { return header_; }

  // All pixels in `format`, with `bytes_a_row` bytes per row.
  std::vector<uint8_t> pixels(spng_format format, size_t bytes_a_row) {
    std::vector<uint8_t> out(bytes_a_row * header_.height);
    require(spng_decode_image(png_.get(), out.data(), out.size(), format, 0));
    require(spng_decode_chunks(png_.get()));  // reads to the end of the file
    return out;
  }

 private:
  void require(int code) const {
    if (code == SPNG_OK) return;
    const bool unknown = code == SPNG_ECHUNK_UNKNOWN_CRITICAL;
    fail("decode_png",
         name_ + ": damaged PNG: " + (unknown ? "a chunk that no PNG has" : spng_strerror(code)));
  }

  struct Free {
    void operator()(spng_ctx* png) const { spng_ctx_free(png); }
  };
  const std::string& name_;
  std::unique_ptr<spng_ctx, Free> png_;
  spng_ihdr header_ = {};
};

PngKind kind_of(const spng_ihdr& header) {
  if (header.color_type == SPNG_COLOR_TYPE_INDEXED) return PngKind::palette;
  const bool grey =
      header.color_type == SPNG_COLOR_TYPE_GRAYSCALE || header.color_type == SPNG_COLOR_TYPE_GRAYSCALE_ALPHA;
  return grey ? PngKind::grey : PngKind::rgb;
}

PngReader read_index_png(const std::vector<uint8_t>& bytes, const std::string& name) {
  if (!is_png(bytes.data(), bytes.size()))
    fail("index_png", name + ": not a PNG file; label maps are PNGs, for JPEG blurs numbers and colours");
  return PngReader(bytes.data(), bytes.size(), name);
}

}  // namespace

bool is_png(const uint8_t* bytes, size_t size) {
  constexpr uint8_t signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  return size >= sizeof signature && std::equal(signature, signature + sizeof signature, bytes);
}

PngKind png_kind(const std::vector<uint8_t>& bytes, const std::string& name) {
  return kind_of(read_index_png(bytes, name).header());
}

Image decode_png(const uint8_t* bytes, size_t size, const std::string& name) {
  PngReader png(bytes, size, name);
  Image image;
  image.width = int(png.header().width);
  image.height = int(png.header().height);
  image.pixels = png.pixels(SPNG_FMT_RGB8, size_t(image.width) * 3);
  return image;
}

Image decode_index_png(const std::vector<uint8_t>& bytes, const std::string& name) {
  PngReader png = read_index_png(bytes, name);
  const spng_ihdr& header = png.header();
  const bool rgb = kind_of(header) == PngKind::rgb;
  if (rgb || header.bit_depth > 8)
    fail("index_png", name + ": got " + (rgb ? "RGB colours" : "16 bits a pixel") +
                          ", need numbers: a grey PNG of 8 bits or one with a palette");
  const size_t channels = header.color_type == SPNG_COLOR_TYPE_GRAYSCALE_ALPHA ? 2 : 1,
               bits = header.bit_depth;
  const size_t row = (header.width * channels * bits + 7) / 8;
  const std::vector<uint8_t> packed = png.pixels(SPNG_FMT_PNG, row);
  Image out(int(header.width), int(header.height), 1);
  for (size_t y = 0; y < header.height; ++y)
    for (size_t x = 0; x < header.width; ++x) {
      const size_t bit = x * channels * bits;
      const unsigned byte = packed[y * row + bit / 8];
      out.pixels[y * header.width + x] = uint8_t(byte >> (8 - bits - bit % 8) & ((1u << bits) - 1));
    }
  return out;
}

}  // namespace pursuit::data
